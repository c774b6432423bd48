#include "sheaf/formats/bytes/gzip.hpp"

#include "sheaf/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"

SHEAF_FUZZ_TARGET(gzip) {
  try {
    const auto file = sheaf::formats::view_bytes("input", input);
    const auto content = sheaf::formats::unpack_gzip(file);
    // Reads all bytes.
    static_cast<void>(sheaf::formats::crc32_of(content));
  } catch (const sheaf::Error&) {
  }
}
