// PNG by libpng's simplified interface. That tells no offsets, so the chunks
// are walked first: a length, a name, the content and a checksum each.
#include <png.h>
#include <zlib.h>

#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/data/image.hpp"

namespace sheaf::data {
namespace {

constexpr std::int64_t kBeginBytes = 8;   // the file's
constexpr std::int64_t kFrameBytes = 12;  // a chunk's, beside its content

std::uint32_t read_word(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

bool is_end(const std::uint8_t* chunk) {
  return std::memcmp(chunk + 4, "IEND", 4) == 0;
}

void check_chunks(const FileContent& file) {
  std::int64_t at = kBeginBytes;
  while (true) {
    const std::int64_t left = file.size() - at;
    const std::uint8_t* chunk = file.data() + at;
    if (left < kFrameBytes || left - kFrameBytes < read_word(chunk))
      file.fail(at, "the image ends early");
    const std::uint32_t length = read_word(chunk);
    const std::uint8_t* sum = chunk + 8 + length;
    if (crc32(0, chunk + 4, 4 + length) != read_word(sum))
      file.fail(at, "broken PNG data (a chunk's checksum is wrong)");
    if (is_end(chunk)) return;
    at += kFrameBytes + length;
  }
}

// Frees what libpng holds, whatever happens.
struct Picture {
  png_image image{};
  Picture() { image.version = PNG_IMAGE_VERSION; }
  ~Picture() { png_image_free(&image); }
};

void check(const FileContent& file, const Picture& picture, int succeeded) {
  if (!succeeded || PNG_IMAGE_FAILED(picture.image))
    file.fail(kBeginBytes,
              concat("broken PNG data (", picture.image.message, ")"));
}

}  // namespace

bool has_png() { return true; }

at::Tensor decode_png(const FileContent& file, int channels) {
  check_chunks(file);
  Picture picture;
  png_image& image = picture.image;
  check(file, picture,
        png_image_begin_read_from_memory(
            &image, file.data(), static_cast<std::size_t>(file.size())));
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  at::Tensor pixels = at::empty({image.height, image.width, channels},
                                at::TensorOptions(at::kByte));
  const png_color black{0, 0, 0};
  check(file, picture,
        png_image_finish_read(&image, &black, pixels.data_ptr(),
                              /*row_stride=*/0, /*colormap=*/nullptr));
  return pixels.permute({2, 0, 1}).contiguous();
}

}  // namespace sheaf::data
