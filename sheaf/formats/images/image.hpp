#pragma once
// Decodes images: PNG and JPEG, if this build has their libraries.
//
// Pixels are the stored values, as with Pillow's convert("RGB"), so that an
// image does not depend on its file format:
//   - no gamma: gAMA, sRGB, cHRM and ICC profiles are ignored;
//   - alpha and transparent colors are dropped, not composited;
//   - the high byte of 16-bit samples is used (as in Pillow, except for 16-bit
//     gray, which Pillow saturates at 255);
//   - CMYK JPEG is read as Adobe writes it, inverted: with n = 255 - K, red is
//     n - round(C n / 255).

#include <cstdint>
#include <memory>

#include "sheaf/formats/bytes/file_bytes.hpp"

namespace sheaf::formats {

// Rows of interleaved samples of 8 bits.
struct Pixels {
  std::shared_ptr<std::uint8_t> samples;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1: gray; 3: red, green, blue
};

struct ImageLimits {
  // Rows times columns. Larger images are an error: a small file can specify a
  // size that takes all memory.
  std::int64_t max_pixels = std::int64_t{1} << 28;
};

// The format is recognized by the first bytes. Throws IoError, which names the
// file and, as far as the format allows, the offset of the error, if the file
// is corrupt, exceeds the limits, or needs more memory than is available;
// UsageError if this build does not support the format.
Pixels decode_image(const FileBytes& file, const ImageLimits& limits = {});

// Defined in image_<format>.cpp, or in no_<format>.cpp if the library is
// missing. The decoders do the same as decode_image().
bool has_png();
bool has_jpeg();
Pixels decode_png(const FileBytes& file, const ImageLimits& limits = {});
Pixels decode_jpeg(const FileBytes& file, const ImageLimits& limits = {});

// For the decoders: memory for the image, after checks of its size.
// `extra_bytes` are those that the decoder needs besides.
Pixels make_pixels(const FileBytes& file, std::int64_t height,
                   std::int64_t width, std::int64_t channels,
                   std::uint64_t extra_bytes = 0);
// Throws IoError if there are more pixels than the limits allow.
void check_pixels(const FileBytes& file, std::int64_t height,
                  std::int64_t width, const ImageLimits& limits);

}  // namespace sheaf::formats
