// Replaces image_png.cpp if libpng was not found.
#include "sheaf/base/error.hpp"
#include "sheaf/formats/images/image.hpp"

namespace sheaf::formats {

bool has_png() { return false; }

Pixels decode_png(const FileBytes& file, const ImageLimits& /*limits*/) {
  throw UsageError(concat(file.path,
                          " is a PNG image, but Sheaf was built "
                          "without libpng; install libpng-dev and rebuild"));
}

}  // namespace sheaf::formats
