#pragma once
// Casts between floating point and int8 on CUDA devices. Pointers are to the
// device's memory; work is put on a stream, and nothing waits.
//
// A number x becomes q = round(x * 127 / amax), to even where two are as near,
// between -127 and 127; q stands for q * amax / 127. `amax` is the largest
// magnitude of a tensor or of a row of it. Where it is not finite, what comes
// back is not either.

#include <cstddef>
#include <cstdint>
#include <string>

namespace sheaf::parallel::cast_kernels {

using Stream = void*;  // a cudaStream_t

enum class Type { kF32, kF16, kBf16 };

// False where sheaf was built without them; then all others throw.
bool are_built();
// Such as 90, of a device; 0 where it is not known.
int capability(int device);
// Such as "NVIDIA H200"; "" where it is not known.
std::string device_name(int device);
// The device's stream that libtorch uses on this thread.
Stream current_stream(int device);

// Of all elements, to result[0].
void amax(const void* from, Type type, std::size_t count, float* result,
          Stream stream);
// Of each row, to result[row]. Rows lie one behind the other.
void amax_rows(const void* from, Type type, std::int64_t rows,
               std::int64_t columns, float* result, Stream stream);

// A matrix; the result may have more rows and columns, which are 0. Its columns
// are a multiple of 8.
struct Quantise {
  const void* from = nullptr;
  Type type = Type::kF16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const float* amax = nullptr;
  bool has_amax_by_row = false;
  std::int8_t* to = nullptr;
  std::int64_t to_rows = 0;
  std::int64_t to_columns = 0;
};
void quantise(const Quantise& work, Stream stream);

// What each output of a convolution is a sum over, as a row of int8: rows are
// (image, y, x). Columns are (channel, ky, kx); with `is_channels_last`, (ky,
// kx, channel), for which channels must be next to each other and a multiple of
// 8. Columns up to `to_columns`, a multiple of 8, are 0.
struct Im2col {
  const void* from = nullptr;  // f16
  std::int64_t images = 0, channels = 0, height = 0, width = 0;
  // Between neighbours of `from`, in elements.
  std::int64_t image_stride = 0, channel_stride = 0, row_stride = 0,
               column_stride = 0;
  std::int64_t kernel[2] = {1, 1};
  std::int64_t stride[2] = {1, 1};
  std::int64_t padding[2] = {0, 0};
  std::int64_t dilation[2] = {1, 1};
  std::int64_t out_height = 0, out_width = 0;
  bool is_channels_last = false;
  const float* amax = nullptr;
  std::int8_t* to = nullptr;
  std::int64_t to_columns = 0;

  std::int64_t rows() const { return images * out_height * out_width; }
  std::int64_t columns() const { return channels * kernel[0] * kernel[1]; }
};
void im2col(const Im2col& work, Stream stream);

// A product of int8 matrices, as f16: each element times both scales, and the
// bias of its column.
struct Dequantise {
  const std::int32_t* from = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;     // of `from`
  const float* amax = nullptr;     // of the first factor
  const float* amax_by = nullptr;  // of the second: one, or one for each column
  bool has_amax_by_column = false;
  const void* bias = nullptr;  // f16, or none
  void* to = nullptr;          // f16
  // 0: the result is rows x columns. Else rows are pixels, so many an image,
  // and it is images x columns x pixels.
  std::int64_t pixels = 0;
};
void dequantise(const Dequantise& work, Stream stream);

}  // namespace sheaf::parallel::cast_kernels
