#include "sheaf/formats/images/image.hpp"

#include <algorithm>
#include <array>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/bytes/memory.hpp"

namespace sheaf::formats {
namespace {

constexpr std::array<std::uint8_t, 8> kPngBegin = {0x89, 'P',  'N',  'G',
                                                   '\r', '\n', 0x1a, '\n'};
constexpr std::array<std::uint8_t, 3> kJpegBegin = {0xff, 0xd8, 0xff};
constexpr std::string_view kDecoded = "the decoded image";

}  // namespace

Pixels decode_image(const FileBytes& file, const ImageLimits& limits) {
  if (file.begins_with(kPngBegin)) return decode_png(file, limits);
  if (file.begins_with(kJpegBegin)) return decode_jpeg(file, limits);
  file.fail(0, "neither a PNG nor a JPEG image");
}

Pixels make_pixels(const FileBytes& file, std::int64_t height,
                   std::int64_t width, std::int64_t channels,
                   std::uint64_t extra_bytes) {
  const auto bytes = static_cast<std::size_t>(height * width * channels);
  check_memory(file.path, kDecoded, bytes + extra_bytes);
  Memory samples;
  resize(samples, file.path, kDecoded, bytes);
  return {{samples.release(), FreeBytes()}, height, width, channels};
}

void check_pixels(const FileBytes& file, std::int64_t height,
                  std::int64_t width, const ImageLimits& limits) {
  if (height > limits.max_pixels / std::max<std::int64_t>(width, 1))
    throw IoError(concat(file.path, ": the image has ", height, " rows of ",
                         width, " pixels; at most ", limits.max_pixels,
                         " pixels are decoded (see max_pixels of "
                         "ImageFolderOptions)"));
}

}  // namespace sheaf::formats
