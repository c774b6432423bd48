#pragma once
// Reads image files: PNG and JPEG, if this build has their libraries.
//
// Pixels are the stored values, as with Pillow's convert("RGB") and
// convert("L"), so that an image does not depend on its file format:
//   - no gamma: gAMA, sRGB, cHRM and ICC profiles are ignored;
//   - alpha and transparent colors are dropped, not composited;
//   - the high byte of 16-bit samples is used (as in Pillow, except for 16-bit
//     gray, which Pillow saturates at 255);
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
// 3 (red, green, blue), and other images are converted. The format is
// recognized by the first bytes. Throws IoError, which names the file and, as
// far as the format allows, the offset of the error; UsageError if this build
// does not support the format.
at::Tensor read_image(const std::string& path, int channels = 3);

// File name extensions of images, in lower case. Includes formats that this
// build does not support; reading such a file is an error.
std::vector<std::string> image_endings();

// One pair per format, defined in image_<format>.cpp, or in no_<format>.cpp if
// the library is missing. The decoders return the same as read_image().
bool has_png();
bool has_jpeg();
at::Tensor decode_png(const FileContent& file, int channels);
at::Tensor decode_jpeg(const FileContent& file, int channels);

// Bytes [height, width, 1 or 3] to bytes [channels, height, width].
at::Tensor with_channels(const at::Tensor& pixels, int channels);

}  // namespace sheaf::data
