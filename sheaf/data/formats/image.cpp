#include "sheaf/data/formats/image.hpp"

#include <algorithm>
#include <array>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

constexpr std::array<std::uint8_t, 8> kPngBegin = {0x89, 'P',  'N',  'G',
                                                   '\r', '\n', 0x1a, '\n'};
constexpr std::array<std::uint8_t, 3> kJpegBegin = {0xff, 0xd8, 0xff};

template <std::size_t kCount>
bool begins_with(const FileContent& file,
                 const std::array<std::uint8_t, kCount>& bytes) {
  return file.size() >= static_cast<std::int64_t>(kCount) &&
         std::equal(bytes.begin(), bytes.end(), file.data());
}

// Single-threaded: the loader's workers already use the cores.
at::Tensor luma_of(const at::Tensor& pixels) {
  at::Tensor gray = at::empty({1, pixels.size(0), pixels.size(1)},
                              at::TensorOptions(at::kByte));
  const auto* from = pixels.data_ptr<std::uint8_t>();
  auto* to = gray.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < gray.numel(); ++i, from += 3)
    to[i] = static_cast<std::uint8_t>(
        (from[0] * 19595 + from[1] * 38470 + from[2] * 7471 + 0x8000) >> 16);
  return gray;
}

}  // namespace

at::Tensor with_channels(const at::Tensor& pixels, int channels) {
  if (pixels.size(2) == 3 && channels == 1) return luma_of(pixels);
  const at::Tensor planes = pixels.permute({2, 0, 1});
  return planes.expand({channels, -1, -1}).contiguous();
}

at::Tensor read_image(const std::string& path, int channels) {
  SHEAF_CHECK(channels == 1 || channels == 3, "cannot read an image with ",
              channels, " channels; use 1 (gray) or 3 (color)");
  const FileContent file = read_file(path);
  if (begins_with(file, kPngBegin)) return decode_png(file, channels);
  if (begins_with(file, kJpegBegin)) return decode_jpeg(file, channels);
  file.fail(0, "neither a PNG nor a JPEG image");
}

std::vector<std::string> image_endings() { return {".png", ".jpg", ".jpeg"}; }

}  // namespace sheaf::data
