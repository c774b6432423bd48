#include "sheaf/base/error.hpp"
#include "sheaf/formats/images/image.hpp"
#include "tests/fuzz/fuzz_target.hpp"

SHEAF_FUZZ_TARGET(jpeg) {
  using namespace sheaf::formats;
  try {
    decode_jpeg(view_bytes("input", input), {.max_pixels = 1 << 18});
  } catch (const sheaf::Error&) {
  }
}
