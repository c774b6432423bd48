// PNG decoding with libpng, which reports no offsets. Therefore the chunks are
// checked first: each has a length, a name, the content and a checksum. libpng
// reports errors by longjmp, so no object with a destructor may be created
// between setjmp() and libpng's calls.
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/image.hpp"

namespace sheaf::data {
namespace {

constexpr std::int64_t kBeginBytes = 8;   // size of the file signature
constexpr std::int64_t kFrameBytes = 12;  // size of a chunk without its content
// The maximum compression ratio of deflate.
constexpr std::int64_t kLargestRatio = 1032;

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
      file.fail(at, "the image is truncated");
    const std::uint32_t length = read_word(chunk);
    const std::uint8_t* sum = chunk + 8 + length;
    if (crc32(0, chunk + 4, 4 + length) != read_word(sum))
      file.fail(at, "corrupt PNG data (wrong checksum of a chunk)");
    if (is_end(chunk)) return;
    at += kFrameBytes + length;
  }
}

// Owns libpng's structures.
struct PngReader {
  explicit PngReader(const FileContent& content) : file(content) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  const FileContent& file;
  std::int64_t at = 0;  // offset of the next byte to read
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::int64_t stored_row_bytes = 0;  // before any conversion
  char message[128] = "";
};

void png_leave(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof reader->message, "%s", text);
  png_longjmp(png, 1);
}

void png_ignore(png_structp, png_const_charp) {}

void png_take(png_structp png, png_bytep to, std::size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader->file.size() - reader->at < static_cast<std::int64_t>(count))
    png_error(png, "the file is truncated");
  std::memcpy(to, reader->file.data() + reader->at, count);
  reader->at += static_cast<std::int64_t>(count);
}

// Converts samples to 8-bit gray or RGB; see image.hpp.
void convert_samples(PngReader& reader) {
  png_set_strip_16(reader.png);
  png_set_expand_gray_1_2_4_to_8(reader.png);
  if (png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_PALETTE)
    png_set_palette_to_rgb(reader.png);
  png_set_strip_alpha(reader.png);
}

// Returns false if the file is corrupt; `reader.message` has the reason.
bool begin_png(PngReader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, png_leave,
                                      png_ignore);
  SHEAF_ASSERT(reader.png, "libpng is not the version of its header");
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  reader.info = png_create_info_struct(reader.png);
  png_set_read_fn(reader.png, &reader, png_take);
  png_read_info(reader.png, reader.info);
  reader.stored_row_bytes =
      static_cast<std::int64_t>(png_get_rowbytes(reader.png, reader.info));
  convert_samples(reader);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_png(PngReader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

[[noreturn]] void fail_png(const PngReader& reader) {
  reader.file.fail(std::max(reader.at, kBeginBytes),
                   concat("corrupt PNG data (", reader.message, ")"));
}

// Rejects impossible sizes before memory is allocated.
void check_png_size(const PngReader& reader, std::int64_t height) {
  const std::int64_t most = reader.file.size() * kLargestRatio;
  if (reader.stored_row_bytes > most / height)
    reader.file.fail(kBeginBytes,
                     concat("corrupt PNG data (", height, " rows of ",
                            reader.stored_row_bytes, " bytes cannot come from ",
                            reader.file.size(), " bytes)"));
}

}  // namespace

bool has_png() { return true; }

at::Tensor decode_png(const FileContent& file, int channels) {
  check_chunks(file);
  PngReader reader(file);
  if (!begin_png(reader)) fail_png(reader);
  const std::int64_t height = png_get_image_height(reader.png, reader.info);
  const std::int64_t width = png_get_image_width(reader.png, reader.info);
  check_png_size(reader, height);
  const std::int64_t stored = png_get_channels(reader.png, reader.info);
  SHEAF_ASSERT((stored == 1 || stored == 3) &&
                   png_get_bit_depth(reader.png, reader.info) == 8,
               file.path, ": libpng gives ", stored, " channels");
  const at::Tensor pixels =
      at::empty({height, width, stored}, at::TensorOptions(at::kByte));
  std::vector<png_bytep> rows;
  for (std::int64_t row = 0; row < height; ++row)
    rows.push_back(pixels.data_ptr<std::uint8_t>() + row * width * stored);
  if (!read_png(reader, rows.data())) fail_png(reader);
  return with_channels(pixels, channels);
}

}  // namespace sheaf::data
