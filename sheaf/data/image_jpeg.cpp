// JPEG by libjpeg. It leaves by longjmp when something is wrong, so nothing
// with a destructor may be made between setjmp() and its calls.
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it
// After that:
#include <jpeglib.h>

#include "sheaf/base/error.hpp"
#include "sheaf/data/image.hpp"

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

// Warnings (level -1) tell of broken data, which libjpeg would fill with grey.
void leave_on_warning(j_common_ptr info, int level) {
  if (level < 0) leave(info);
}

void prepare(Reader& reader) {
  reader.image.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = leave;
  reader.errors.emit_message = leave_on_warning;
  reader.image.client_data = &reader;
}

// False when the file is broken; `reader.message` says how.
bool begin(Reader& reader, const FileContent& file, int channels) {
  if (setjmp(reader.failed) != 0) return false;
  jpeg_create_decompress(&reader.image);
  jpeg_mem_src(&reader.image, file.data(),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&reader.image, TRUE);
  reader.image.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&reader.image);
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

// Where libjpeg stood: at most a few bytes behind what is broken.
[[noreturn]] void fail(const Reader& reader, const FileContent& file) {
  const jpeg_source_mgr* source = reader.image.src;
  const std::uint8_t* at = source ? source->next_input_byte : nullptr;
  const bool is_inside =
      at && at >= file.data() && at <= file.data() + file.size();
  file.fail(is_inside ? at - file.data() : file.size(),
            concat("broken JPEG data (", reader.message, ")"));
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
  if (!begin(reader, file, channels)) fail(reader, file);
  const std::int64_t height = reader.image.output_height;
  const std::int64_t width = reader.image.output_width;
  at::Tensor pixels =
      at::empty({height, width, channels}, at::TensorOptions(at::kByte));
  const auto row_bytes = static_cast<std::size_t>(width * channels);
  if (!read_rows(reader, pixels.data_ptr<std::uint8_t>(), row_bytes))
    fail(reader, file);
  return pixels.permute({2, 0, 1}).contiguous();
}

}  // namespace sheaf::data
