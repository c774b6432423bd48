#include "sheaf/data/image.hpp"

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

}  // namespace

at::Tensor read_image(const std::string& path, int channels) {
  SHEAF_CHECK(channels == 1 || channels == 3, "an image with ", channels,
              " channels was asked for; it can have 1 (grey) or 3 (colour)");
  const FileContent file = read_file(path);
  if (begins_with(file, kPngBegin)) return decode_png(file, channels);
  if (begins_with(file, kJpegBegin)) return decode_jpeg(file, channels);
  file.fail(0, "this is neither a PNG nor a JPEG image");
}

std::vector<std::string> image_endings() {
  std::vector<std::string> endings;
  if (has_png()) endings.insert(endings.end(), {".png"});
  if (has_jpeg()) endings.insert(endings.end(), {".jpg", ".jpeg"});
  return endings;
}

}  // namespace sheaf::data
