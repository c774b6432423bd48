#pragma once
// Pictures in files: PNG and JPEG, as far as this build has their libraries.

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/data/file.hpp"

namespace sheaf::data {

// The picture as bytes [channels, height, width]; `channels` is 1 (grey) or
// 3 (red, green, blue), and pictures of the other kind are converted. Where a
// picture is transparent, black shines through. The format is known by the
// first bytes. IoError names the file and, as well as the format allows, the
// offset where it is broken; UsageError where this build cannot read it.
at::Tensor read_image(const std::string& path, int channels = 3);

// Endings of names, in small letters, of the formats that this build reads.
std::vector<std::string> image_endings();

// One per format; defined in image_<format>.cpp, or in no_<format>.cpp where
// the library was missing.
bool has_png();
bool has_jpeg();
at::Tensor decode_png(const FileContent& file, int channels);
at::Tensor decode_jpeg(const FileContent& file, int channels);

}  // namespace sheaf::data
