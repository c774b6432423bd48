// JPEG decoding with libjpeg. It reports errors by longjmp, so no object with a
// destructor may be created between setjmp() and its calls.
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it
// After that:
#include <jpeglib.h>

#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/image.hpp"

namespace sheaf::data {
namespace {

struct Reader {
  jpeg_decompress_struct image{};
  jpeg_error_mgr errors{};
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = "";
};

void leave(j_common_ptr info) {
  auto* reader = static_cast<Reader*>(info->client_data);
  info->err->format_message(info, reader->message);
  std::longjmp(reader->failed, 1);
}

// Warnings (level -1) report corrupt data, which libjpeg would fill with gray.
void leave_on_warning(j_common_ptr info, int level) {
  if (level < 0) leave(info);
}

void prepare(Reader& reader) {
  reader.image.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = leave;
  reader.errors.emit_message = leave_on_warning;
  reader.image.client_data = &reader;
}

// Returns false if the file is corrupt; `reader.message` has the reason.
bool begin(Reader& reader, const FileContent& file) {
  if (setjmp(reader.failed) != 0) return false;
  jpeg_create_decompress(&reader.image);
  jpeg_mem_src(&reader.image, file.data(),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&reader.image, TRUE);
  return true;
}

// Gray images stay gray. Color images are decoded in color even if gray is
// wanted, so that the conversion is the same for all formats; see image.hpp.
bool start(Reader& reader) {
  if (setjmp(reader.failed) != 0) return false;
  jpeg_decompress_struct& image = reader.image;
  image.out_color_space = image.num_components == 1   ? JCS_GRAYSCALE
                          : image.num_components == 4 ? JCS_CMYK
                                                      : JCS_RGB;
  jpeg_start_decompress(&image);
  return true;
}

bool read_rows(Reader& reader, std::uint8_t* pixels, std::size_t row_bytes) {
  if (setjmp(reader.failed) != 0) return false;
  while (reader.image.output_scanline < reader.image.output_height) {
    JSAMPROW row = pixels + reader.image.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.image, &row, 1);
  }
  jpeg_finish_decompress(&reader.image);
  return true;
}

// Reports the position of libjpeg, at most a few bytes after the corrupt data.
[[noreturn]] void fail(const Reader& reader, const FileContent& file) {
  const jpeg_source_mgr* source = reader.image.src;
  const std::uint8_t* at = source ? source->next_input_byte : nullptr;
  const bool is_inside =
      at && at >= file.data() && at <= file.data() + file.size();
  file.fail(is_inside ? at - file.data() : file.size(),
            concat("corrupt JPEG data (", reader.message, ")"));
}

// Rejects impossible sizes before memory is allocated: each block of 8x8 pixels
// has a Huffman code of at least one bit. Arithmetic codes may be shorter.
void check_jpeg_size(const Reader& reader, const FileContent& file) {
  constexpr std::int64_t kMostPixelsPerByte = 8 * 64;
  const std::int64_t height = reader.image.image_height;
  const std::int64_t width = reader.image.image_width;
  if (!reader.image.arith_code &&
      height * width / kMostPixelsPerByte > file.size())
    file.fail(file.size(),
              concat("corrupt JPEG data (", height, " rows of ", width,
                     " pixels cannot come from ", file.size(), " bytes)"));
}

// Converts CMYK to RGB. The samples are stored inverted: 255 is no ink.
at::Tensor rgb_of_cmyk(const at::Tensor& stored) {
  at::Tensor pixels = at::empty({stored.size(0), stored.size(1), 3},
                                at::TensorOptions(at::kByte));
  const auto* from = stored.data_ptr<std::uint8_t>();
  auto* to = pixels.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < stored.numel() / 4; ++i, from += 4, to += 3) {
    const int rest = from[3];
    for (int ink = 0; ink < 3; ++ink) {
      const int product = (255 - from[ink]) * rest + 128;
      // Divided by 255 and rounded.
      to[ink] =
          static_cast<std::uint8_t>(rest - (((product >> 8) + product) >> 8));
    }
  }
  return pixels;
}

struct Cleaner {
  Reader& reader;
  ~Cleaner() { jpeg_destroy_decompress(&reader.image); }
};

}  // namespace

bool has_jpeg() { return true; }

at::Tensor decode_jpeg(const FileContent& file, int channels) {
  Reader reader;
  prepare(reader);
  const Cleaner cleaner{reader};
  if (!begin(reader, file)) fail(reader, file);
  check_jpeg_size(reader, file);
  if (!start(reader)) fail(reader, file);
  const std::int64_t height = reader.image.output_height;
  const std::int64_t width = reader.image.output_width;
  const std::int64_t stored = reader.image.output_components;
  const at::Tensor pixels =
      at::empty({height, width, stored}, at::TensorOptions(at::kByte));
  const auto row_bytes = static_cast<std::size_t>(width * stored);
  if (!read_rows(reader, pixels.data_ptr<std::uint8_t>(), row_bytes))
    fail(reader, file);
  return with_channels(stored == 4 ? rgb_of_cmyk(pixels) : pixels, channels);
}

}  // namespace sheaf::data
