#pragma once
// Casts between floating point and int8 on CUDA devices. All pointers refer to
// device memory. Work is submitted to a stream; no function waits for it.
//
// A number x becomes q = round(x * 127 / amax), rounded to nearest even and
// clamped to -127 … 127; q represents q * amax / 127. `amax` is the largest
// magnitude of a tensor or of one of its rows. If it is not finite, the
// dequantized values are not finite either.

#include <cstddef>
#include <cstdint>
#include <string>

namespace sheaf::parallel::cast_kernels {

using Stream = void*;  // a cudaStream_t

enum class Type { kF32, kF16, kBf16 };

// False if Sheaf was built without these kernels; all functions that use a
// stream then throw UsageError.
bool are_built();
// The compute capability of a device, such as 90; 0 if unknown.
int capability(int device);
// The name of a device, such as "NVIDIA H200"; "" if unknown.
std::string device_name(int device);
// libtorch's current stream of the device on this thread.
Stream current_stream(int device);

// The maximum magnitude of all elements, written to result[0].
void amax(const void* from, Type type, std::size_t count, float* result,
          Stream stream);
// The maximum magnitude of each row, written to result[row]. Rows are
// contiguous.
void amax_rows(const void* from, Type type, std::int64_t rows,
               std::int64_t columns, float* result, Stream stream);

// Quantizes a matrix. The result may have more rows and columns, which are set
// to 0. Its number of columns must be a multiple of 8.
struct Quantize {
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
void quantize(const Quantize& work, Stream stream);

// Unfolds the inputs of each output of a convolution into a row of int8. Rows
// are (image, y, x). Columns are (channel, ky, kx); with `is_channels_last`,
// (ky, kx, channel), for which channels must be contiguous and a multiple of 8.
// Additional columns up to `to_columns`, a multiple of 8, are 0.
struct Im2col {
  const void* from = nullptr;  // f16
  std::int64_t images = 0, channels = 0, height = 0, width = 0;
  // Strides of `from`, in elements.
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

// Converts a product of int8 matrices to f16: multiplies each element by both
// scales and adds the bias of its column.
struct Dequantize {
  const std::int32_t* from = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;  // of `from`
  const float* amax = nullptr;  // of the first factor
  // Of the second factor: one value, or one per column.
  const float* amax_by = nullptr;
  bool has_amax_by_column = false;
  const void* bias = nullptr;  // f16, or null
  void* to = nullptr;          // f16
  // 0: the result is rows x columns. Otherwise rows are pixels, with this
  // number per image, and the result is images x columns x pixels.
  std::int64_t pixels = 0;
};
void dequantize(const Dequantize& work, Stream stream);

}  // namespace sheaf::parallel::cast_kernels
