// In place of image_jpeg.cpp, where libjpeg was not found.
#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/image.hpp"

namespace sheaf::data {

bool has_jpeg() { return false; }

at::Tensor decode_jpeg(const FileContent& file, int /*channels*/) {
  throw UsageError(
      concat(file.path,
             " is a JPEG image, and this build was made "
             "without libjpeg; install libjpeg-dev and build again"));
}

}  // namespace sheaf::data
