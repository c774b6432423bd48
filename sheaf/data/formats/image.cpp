#include "sheaf/data/formats/image.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/formats/bytes/memory.hpp"

namespace sheaf::data {
namespace {

// In the memory of the pixels: [height, width, channels].
at::Tensor pixel_tensor(const formats::Pixels& pixels) {
  return at::from_blob(
      pixels.samples.get(), {pixels.height, pixels.width, pixels.channels},
      [samples = pixels.samples](void*) mutable { samples.reset(); },
      at::TensorOptions(at::kByte));
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

// Bytes [height, width, 1 or 3] to bytes [channels, height, width].
at::Tensor with_channels(const at::Tensor& pixels, int channels) {
  if (pixels.size(2) == 3 && channels == 1) return luma_of(pixels);
  const at::Tensor planes = pixels.permute({2, 0, 1});
  return planes.expand({channels, -1, -1}).contiguous();
}

}  // namespace

at::Tensor read_image(const std::string& path, int channels,
                      const formats::ImageLimits& limits) {
  SHEAF_CHECK(channels == 1 || channels == 3, "cannot read an image with ",
              channels, " channels; use 1 (gray) or 3 (color)");
  const formats::Pixels pixels =
      formats::decode_image(formats::read_bytes(path), limits);
  formats::check_memory(
      path, "the image",
      static_cast<std::uint64_t>(pixels.height * pixels.width * channels));
  return with_channels(pixel_tensor(pixels), channels);
}

std::vector<std::string> image_endings() { return {".png", ".jpg", ".jpeg"}; }

}  // namespace sheaf::data
