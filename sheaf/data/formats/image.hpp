#pragma once
// Reads image files as tensors; see sheaf/formats/images/image.hpp.

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/formats/images/image.hpp"

namespace sheaf::data {

// The image as bytes [channels, height, width]; `channels` is 1 (gray) or
// 3 (red, green, blue), and other images are converted. Gray from color is the
// luma of ITU-R 601-2, rounded: (19595 R + 38470 G + 7471 B + 32768) >> 16,
// for all formats. Throws like formats::decode_image().
at::Tensor read_image(const std::string& path, int channels = 3,
                      const formats::ImageLimits& limits = {});

// File name extensions of images, in lower case. Includes formats that this
// build does not support; reading such a file is an error.
std::vector<std::string> image_endings();

}  // namespace sheaf::data
