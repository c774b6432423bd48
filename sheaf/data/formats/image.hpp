#pragma once
// Images in files: PNG and JPEG, as far as this build has their libraries.
//
// Pixels are the stored values, as Pillow's convert("RGB") and convert("L")
// give them, so that an image does not depend on the format of its file:
//   - no gamma: gAMA, sRGB, cHRM and ICC profiles are ignored;
//   - alpha and transparent colors are dropped, not composited;
//   - of 16-bit samples the high byte counts (Pillow too, but for 16-bit gray,
//     which it saturates at 255);
//   - gray from color is the luma of ITU-R 601-2, rounded:
//     (19595 R + 38470 G + 7471 B + 32768) >> 16, also for JPEG;
//   - CMYK JPEG is read as Adobe writes it, inverted: with n = 255 - K, red is
//     n - round(C n / 255).

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/data/formats/file.hpp"

namespace sheaf::data {

// The image as bytes [channels, height, width]; `channels` is 1 (gray) or
// 3 (red, green, blue), and images of the other kind are converted. The format
// is known by the first bytes. IoError names the file and, as well as the
// format allows, the offset where it is broken; UsageError where this build
// cannot read it.
at::Tensor read_image(const std::string& path, int channels = 3);

// Endings of names, in small letters, of images. A file of a format that this
// build lacks counts as an image, too: it is an error when it is read.
std::vector<std::string> image_endings();

// One per format; defined in image_<format>.cpp, or in no_<format>.cpp where
// the library was missing. They return what read_image() does.
bool has_png();
bool has_jpeg();
at::Tensor decode_png(const FileContent& file, int channels);
at::Tensor decode_jpeg(const FileContent& file, int channels);

// Bytes [height, width, 1 or 3] to bytes [channels, height, width].
at::Tensor with_channels(const at::Tensor& pixels, int channels);

}  // namespace sheaf::data
