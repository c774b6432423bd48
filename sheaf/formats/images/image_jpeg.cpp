// JPEG decoding with libjpeg. It reports errors by longjmp, so no object with a
// destructor may be created between setjmp() and its calls.
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it
// After that:
#include <jerror.h>
#include <jpeglib.h>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/images/image.hpp"

namespace sheaf::formats {
namespace {

// Usual progressive files have about 10. Each takes time for the whole image,
// even if it has only a few bytes.
constexpr int kMostScans = 100;

struct JpegReader {
  jpeg_decompress_struct image{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = "";
};

JpegReader* jpeg_reader_of(j_common_ptr info) {
  return static_cast<JpegReader*>(info->client_data);
}

void leave_jpeg(j_common_ptr info) {
  JpegReader* reader = jpeg_reader_of(info);
  info->err->format_message(info, reader->message);
  std::longjmp(reader->failed, 1);
}

// Warnings (level -1) report corrupt data, which libjpeg would fill with gray.
void leave_on_warning(j_common_ptr info, int level) {
  if (level < 0) leave_jpeg(info);
}

void limit_scans(j_common_ptr info) {
  JpegReader* reader = jpeg_reader_of(info);
  if (reader->image.input_scan_number <= kMostScans) return;
  std::snprintf(reader->message, sizeof reader->message,
                "more than %d scans of the image", kMostScans);
  std::longjmp(reader->failed, 1);
}

void prepare_jpeg(JpegReader& reader) {
  reader.image.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = leave_jpeg;
  reader.errors.emit_message = leave_on_warning;
  reader.progress.progress_monitor = limit_scans;
  reader.image.client_data = &reader;
}

// Returns false if the file is corrupt; `reader.message` has the reason.
bool begin_jpeg(JpegReader& reader, const FileBytes& file) {
  if (setjmp(reader.failed) != 0) return false;
  jpeg_create_decompress(&reader.image);
  reader.image.progress = &reader.progress;
  jpeg_mem_src(&reader.image, file.data(), file.size);
  jpeg_read_header(&reader.image, TRUE);
  return true;
}

// Gray images stay gray, others are decoded to RGB or CMYK.
bool start_jpeg(JpegReader& reader) {
  if (setjmp(reader.failed) != 0) return false;
  jpeg_decompress_struct& image = reader.image;
  image.out_color_space = image.num_components == 1   ? JCS_GRAYSCALE
                          : image.num_components == 4 ? JCS_CMYK
                                                      : JCS_RGB;
  jpeg_start_decompress(&image);
  return true;
}

bool read_jpeg_rows(JpegReader& reader, std::uint8_t* samples,
                    std::size_t row_bytes) {
  if (setjmp(reader.failed) != 0) return false;
  while (reader.image.output_scanline < reader.image.output_height) {
    JSAMPROW row = samples + reader.image.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.image, &row, 1);
  }
  jpeg_finish_decompress(&reader.image);
  return true;
}

// Reports the position of libjpeg, at most a few bytes after the corrupt data.
[[noreturn]] void fail_jpeg(const JpegReader& reader, const FileBytes& file) {
  if (reader.errors.msg_code == JERR_OUT_OF_MEMORY)
    throw IoError(concat(file.path, ": not enough memory to decode the image"));
  const jpeg_source_mgr* source = reader.image.src;
  const std::uint8_t* at = source ? source->next_input_byte : nullptr;
  const bool is_inside =
      at && at >= file.data() && at <= file.data() + file.size;
  file.fail(is_inside ? static_cast<std::size_t>(at - file.data()) : file.size,
            concat("corrupt JPEG data (", reader.message, ")"));
}

// Rejects impossible sizes before memory is allocated: each block of 8x8 pixels
// has a Huffman code of at least one bit. Arithmetic codes can be far shorter,
// but only those of large images of a single color are, which are refused.
void check_jpeg_size(const JpegReader& reader, const FileBytes& file) {
  const std::size_t most_pixels_per_byte =
      reader.image.arith_code ? 512 * 64 : 8 * 64;
  const std::size_t height = reader.image.image_height;
  const std::size_t width = reader.image.image_width;
  if (height * width / most_pixels_per_byte > file.size)
    file.fail(file.size,
              concat("corrupt JPEG data (", height, " rows of ", width,
                     " pixels cannot come from ", file.size, " bytes)"));
}

// The memory in which libjpeg collects the coefficients of several scans.
std::uint64_t coefficient_bytes(JpegReader& reader) {
  jpeg_decompress_struct& image = reader.image;
  if (!jpeg_has_multiple_scans(&image)) return 0;
  std::uint64_t blocks = 0;
  for (int i = 0; i < image.num_components; ++i)
    blocks += std::uint64_t{image.comp_info[i].width_in_blocks} *
              image.comp_info[i].height_in_blocks;
  return blocks * sizeof(JBLOCK);
}

// Converts CMYK to RGB in place. The samples are stored inverted: 255 is no
// ink.
void turn_cmyk_to_rgb(Pixels& pixels) {
  const std::uint8_t* from = pixels.samples.get();
  std::uint8_t* to = pixels.samples.get();
  const std::int64_t count = pixels.height * pixels.width;
  for (std::int64_t i = 0; i < count; ++i, from += 4, to += 3) {
    const int rest = from[3];
    for (int ink = 0; ink < 3; ++ink) {
      const int product = (255 - from[ink]) * rest + 128;
      // Divided by 255 and rounded.
      to[ink] =
          static_cast<std::uint8_t>(rest - (((product >> 8) + product) >> 8));
    }
  }
  pixels.channels = 3;
}

struct JpegCleaner {
  JpegReader& reader;
  ~JpegCleaner() { jpeg_destroy_decompress(&reader.image); }
};

}  // namespace

bool has_jpeg() { return true; }

Pixels decode_jpeg(const FileBytes& file, const ImageLimits& limits) {
  JpegReader reader;
  prepare_jpeg(reader);
  const JpegCleaner cleaner{reader};
  if (!begin_jpeg(reader, file)) fail_jpeg(reader, file);
  check_jpeg_size(reader, file);
  check_pixels(file, reader.image.image_height, reader.image.image_width,
               limits);
  const std::int64_t stored = reader.image.num_components;
  Pixels pixels =
      make_pixels(file, reader.image.image_height, reader.image.image_width,
                  stored, coefficient_bytes(reader));
  if (!start_jpeg(reader)) fail_jpeg(reader, file);
  SHEAF_ASSERT(reader.image.output_components == stored, file.path,
               ": libjpeg gives ", reader.image.output_components,
               " components of ", stored);
  const auto row_bytes = static_cast<std::size_t>(pixels.width * stored);
  if (!read_jpeg_rows(reader, pixels.samples.get(), row_bytes))
    fail_jpeg(reader, file);
  if (stored == 4) turn_cmyk_to_rgb(pixels);
  return pixels;
}

}  // namespace sheaf::formats
