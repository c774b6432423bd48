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
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/images/image.hpp"

namespace sheaf::formats {
namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kChunkFrameBytes = 12;  // of a chunk without its content
// The maximum compression ratio of deflate.
constexpr std::size_t kLargestRatio = 1032;

std::uint32_t png_word(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

bool is_end_chunk(const std::uint8_t* chunk) {
  return std::memcmp(chunk + 4, "IEND", 4) == 0;
}

void check_chunks(const FileBytes& file) {
  std::size_t at = kSignatureBytes;
  while (true) {
    const std::size_t left = file.size - std::min(at, file.size);
    if (left < kChunkFrameBytes) file.fail(at, "the image is truncated");
    const std::uint8_t* chunk = file.data() + at;
    const std::uint32_t length = png_word(chunk);
    if (length > left - kChunkFrameBytes)
      file.fail(at, "the image is truncated");
    const std::uint8_t* sum = chunk + 8 + length;
    if (crc32_z(0, chunk + 4, 4 + std::size_t{length}) != png_word(sum))
      file.fail(at, "corrupt PNG data (wrong checksum of a chunk)");
    if (is_end_chunk(chunk)) return;
    at += kChunkFrameBytes + length;
  }
}

// Owns libpng's structures.
struct PngReader {
  explicit PngReader(const FileBytes& content) : file(content) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  const FileBytes& file;
  std::size_t at = 0;  // offset of the next byte to read
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::size_t stored_row_bytes = 0;  // before any conversion
  char message[128] = "";
};

void leave_png(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof reader->message, "%s", text);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

void take_png_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader->file.size - reader->at < count)
    png_error(png, "the file is truncated");
  std::memcpy(to, reader->file.data() + reader->at, count);
  reader->at += count;
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
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  reader.info = png_create_info_struct(reader.png);
  if (!reader.info) png_error(reader.png, "not enough memory");
  // Chunks that do not change pixels are not parsed: some are compressed.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_read_fn(reader.png, &reader, take_png_bytes);
  png_read_info(reader.png, reader.info);
  reader.stored_row_bytes = png_get_rowbytes(reader.png, reader.info);
  convert_samples(reader);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_png_rows(PngReader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

[[noreturn]] void fail_png(const PngReader& reader) {
  reader.file.fail(std::max(reader.at, kSignatureBytes),
                   concat("corrupt PNG data (", reader.message, ")"));
}

// Rejects impossible sizes before memory is allocated.
void check_png_size(const PngReader& reader, std::size_t height) {
  const std::size_t most = reader.file.size * kLargestRatio;
  if (reader.stored_row_bytes > most / height)
    reader.file.fail(kSignatureBytes,
                     concat("corrupt PNG data (", height, " rows of ",
                            reader.stored_row_bytes, " bytes cannot come from ",
                            reader.file.size, " bytes)"));
}

}  // namespace

bool has_png() { return true; }

Pixels decode_png(const FileBytes& file, const ImageLimits& limits) {
  check_chunks(file);
  PngReader reader(file);
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, leave_png,
                                      ignore_png_warning);
  if (!reader.png)
    throw IoError(
        concat(file.path, ": libpng cannot be used: ",
               reader.message[0] ? reader.message : "not enough memory"));
  if (!begin_png(reader)) fail_png(reader);
  const auto height = png_get_image_height(reader.png, reader.info);
  const auto width = png_get_image_width(reader.png, reader.info);
  check_png_size(reader, height);
  check_pixels(file, height, width, limits);
  const std::int64_t stored = png_get_channels(reader.png, reader.info);
  SHEAF_ASSERT((stored == 1 || stored == 3) &&
                   png_get_bit_depth(reader.png, reader.info) == 8,
               file.path, ": libpng gives ", stored, " channels");
  Pixels pixels = make_pixels(file, height, width, stored);
  std::vector<png_bytep> rows;
  for (std::int64_t row = 0; row < pixels.height; ++row)
    rows.push_back(pixels.samples.get() + row * pixels.width * stored);
  if (!read_png_rows(reader, rows.data())) fail_png(reader);
  return pixels;
}

}  // namespace sheaf::formats
