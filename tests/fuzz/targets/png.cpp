#include <zlib.h>

#include <cstddef>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/images/image.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

std::size_t word_at(const Bytes& png, std::size_t at) {
  return std::size_t{png[at]} << 24 | png[at + 1] << 16 | png[at + 2] << 8 |
         png[at + 3];
}

// Corrects the checksums of all whole chunks. Random bytes never have correct
// ones, and would not get to libpng.
Bytes with_checksums(Bytes png) {
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t length = word_at(png, at);
    if (length > png.size() - at - 12) break;
    const auto sum = crc32_z(0, png.data() + at + 4, 4 + length);
    for (std::size_t i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  return png;
}

void decode_any(const Bytes& png) {
  using namespace sheaf::formats;
  try {
    decode_png(view_bytes("input", png), {.max_pixels = 1 << 18});
  } catch (const sheaf::Error&) {
  }
}

}  // namespace

SHEAF_FUZZ_TARGET(png) {
  const Bytes bytes(input.begin(), input.end());
  decode_any(bytes);
  decode_any(with_checksums(bytes));
}
