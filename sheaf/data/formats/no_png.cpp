// Replaces image_png.cpp if libpng was not found.
#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/image.hpp"

namespace sheaf::data {

bool has_png() { return false; }

at::Tensor decode_png(const FileContent& file, int /*channels*/) {
  throw UsageError(concat(file.path,
                          " is a PNG image, but Sheaf was built "
                          "without libpng; install libpng-dev and rebuild"));
}

}  // namespace sheaf::data
