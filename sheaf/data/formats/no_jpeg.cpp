// Replaces image_jpeg.cpp if libjpeg was not found.
#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/image.hpp"

namespace sheaf::data {

bool has_jpeg() { return false; }

at::Tensor decode_jpeg(const FileContent& file, int /*channels*/) {
  throw UsageError(concat(file.path,
                          " is a JPEG image, but Sheaf was built "
                          "without libjpeg; install libjpeg-dev and rebuild"));
}

}  // namespace sheaf::data
