// Replaces image_jpeg.cpp if libjpeg was not found.
#include "sheaf/base/error.hpp"
#include "sheaf/formats/images/image.hpp"

namespace sheaf::formats {

bool has_jpeg() { return false; }

Pixels decode_jpeg(const FileBytes& file, const ImageLimits& /*limits*/) {
  throw UsageError(concat(file.path,
                          " is a JPEG image, but Sheaf was built "
                          "without libjpeg; install libjpeg-dev and rebuild"));
}

}  // namespace sheaf::formats
