// Every kernel reads its input once, coalesced in 16-byte pieces where the
// layout allows, and writes its output in the same way. im2col of images that
// are not channels-last goes through shared memory, because it reads and writes
// along different axes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel::cast_kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr float kSteps = 127;

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }

void check(cudaError_t error, const char* name) {
  if (error != cudaSuccess)
    throw Error(concat("the CUDA kernel ", name,
                       " failed to start: ", cudaGetErrorString(error)));
}

// Kernels use 32-bit indices, with room for the last step of a grid.
void check_size(std::int64_t count, const char* name) {
  if (count >= std::int64_t{1} << 31)
    throw UsageError(concat("the CUDA kernel ", name, " supports less than ",
                            "2^31 elements, but got ", count));
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

// Enough blocks to fill a device; each block then processes several pieces.
unsigned blocks_for(std::int64_t threads) {
  constexpr std::int64_t kMost = 132 * 16;
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMost));
}

__device__ float to_float(float value) { return value; }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

// A piece of 16 bytes, with access to its elements.
template <class T>
struct Piece {
  static constexpr int kCount = 16 / sizeof(T);
  uint4 bytes;

  __device__ static Piece load(const T* from, std::int64_t index) {
    return {reinterpret_cast<const uint4*>(from)[index]};
  }
  __device__ float operator[](int i) const {
    return to_float(reinterpret_cast<const T*>(&bytes)[i]);
  }
};

// Unlike fmaxf(), propagates NaN.
__device__ float larger(float a, float b) { return (a > b || a != a) ? a : b; }

__device__ float block_amax(float mine) {
  __shared__ float of_warps[kThreads / kWarp];
  for (int other = kWarp / 2; other > 0; other /= 2)
    mine = larger(__shfl_xor_sync(0xffffffffu, mine, other), mine);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  mine = threadIdx.x < blockDim.x / kWarp ? of_warps[threadIdx.x] : 0;
  for (int other = kThreads / kWarp / 2; other > 0; other /= 2)
    mine = larger(__shfl_xor_sync(0xffffffffu, mine, other), mine);
  return mine;  // the maximum of the block, in the first thread
}

// The maximum of elements begin, begin + step, …: first in pieces, then the
// remaining elements.
template <class T>
__device__ float thread_amax(const T* from, std::int64_t count,
                             std::int64_t begin, std::int64_t step,
                             bool has_pieces) {
  const std::int64_t pieces = has_pieces ? count / Piece<T>::kCount : 0;
  float most = 0;
#pragma unroll 4
  for (std::int64_t i = begin; i < pieces; i += step) {
    const auto piece = Piece<T>::load(from, i);
#pragma unroll
    for (int j = 0; j < Piece<T>::kCount; ++j)
      most = larger(fabsf(piece[j]), most);
  }
  for (std::int64_t i = pieces * Piece<T>::kCount + begin; i < count; i += step)
    most = larger(fabsf(to_float(from[i])), most);
  return most;
}

// Magnitudes and NaN compare in the same order as their bits.
template <class T>
__global__ void amax_kernel(const T* from, std::int64_t count, bool has_pieces,
                            float* result) {
  const std::int64_t me = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const float most = block_amax(thread_amax(
      from, count, me, std::int64_t{gridDim.x} * blockDim.x, has_pieces));
  if (threadIdx.x == 0)
    atomicMax(reinterpret_cast<int*>(result), __float_as_int(most));
}

template <class T>
__global__ void amax_rows_kernel(const T* from, std::int64_t columns,
                                 bool has_pieces, float* result) {
  const std::int64_t row = blockIdx.x;
  const float most = block_amax(thread_amax(
      from + row * columns, columns, threadIdx.x, blockDim.x, has_pieces));
  if (threadIdx.x == 0) result[row] = most;
}

__device__ float factor_of(float amax) { return amax > 0 ? kSteps / amax : 0; }

__device__ unsigned quantized(float value, float factor) {
  const int whole = __float2int_rn(__fmul_rn(value, factor));
  return static_cast<unsigned>(max(-127, min(127, whole))) & 0xffu;
}

// Each thread converts sixteen columns.
template <class T>
__global__ void quantize_pieces_kernel(Quantize work) {
  constexpr int kLoads = 16 / Piece<T>::kCount;
  const std::int64_t in_row = work.to_columns / 16;
  const std::int64_t pieces = work.rows * in_row;
  const T* from = static_cast<const T*>(work.from);
  float factor = factor_of(work.amax[0]);
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < pieces; i += std::int64_t{gridDim.x} * blockDim.x) {
    if (work.has_amax_by_row) factor = factor_of(work.amax[i / in_row]);
    unsigned words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const auto piece = Piece<T>::load(from, i * kLoads + load);
#pragma unroll
      for (int j = 0; j < Piece<T>::kCount; ++j) {
        const int place = load * Piece<T>::kCount + j;
        words[place / 4] |= quantized(piece[j], factor) << (place % 4 * 8);
      }
    }
    reinterpret_cast<uint4*>(work.to)[i] =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Each thread converts four columns; supports any sizes, including padding rows
// and columns.
template <class T>
__global__ void quantize_kernel(Quantize work, std::int64_t first_row) {
  const std::int64_t in_row = work.to_columns / 4;
  const std::int64_t groups = (work.to_rows - first_row) * in_row;
  const T* from = static_cast<const T*>(work.from);
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < groups; i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t row = first_row + i / in_row;
    const std::int64_t column = i % in_row * 4;
    unsigned word = 0;
    if (row < work.rows) {
      const float factor = factor_of(work.amax[work.has_amax_by_row ? row : 0]);
      for (int j = 0; j < 4; ++j)
        if (column + j < work.columns)
          word |=
              quantized(to_float(from[row * work.columns + column + j]), factor)
              << (j * 8);
    }
    reinterpret_cast<unsigned*>(work.to)[row * in_row + i % in_row] = word;
  }
}

template <class T>
void quantize_of(const Quantize& work, cudaStream_t stream) {
  const bool has_pieces = work.columns == work.to_columns &&
                          work.columns % 16 == 0 && is_aligned(work.from) &&
                          is_aligned(work.to);
  const std::int64_t first_row = has_pieces ? work.rows : 0;
  if (has_pieces && work.rows > 0)
    quantize_pieces_kernel<T>
        <<<blocks_for(work.rows * work.columns / 16), kThreads, 0, stream>>>(
            work);
  if (work.to_rows > first_row)
    quantize_kernel<T>
        <<<blocks_for((work.to_rows - first_row) * work.to_columns / 4),
           kThreads, 0, stream>>>(work, first_row);
}

// The start of an output's window, which may be in the padding.
struct Corner {
  std::int64_t offset;
  int y, x;
};

// Uses 32-bit division, because 64-bit division would take longer than reading.
__device__ Corner corner_of(const Im2col& work, unsigned row) {
  const auto width = static_cast<unsigned>(work.out_width);
  const auto height = static_cast<unsigned>(work.out_height);
  const unsigned line = row / width;
  const unsigned image = line / height;
  const int y =
      static_cast<int>(line % height * work.stride[0] - work.padding[0]);
  const int x =
      static_cast<int>(row % width * work.stride[1] - work.padding[1]);
  return {
      image * work.image_stride + y * work.row_stride + x * work.column_stride,
      y, x};
}

// The offset of a kernel position and channel from the corner.
struct Step {
  std::int64_t offset;
  int y, x;
};

__device__ Step step_of(const Im2col& work, unsigned ky, unsigned kx,
                        std::int64_t channel) {
  const int y = static_cast<int>(ky * work.dilation[0]);
  const int x = static_cast<int>(kx * work.dilation[1]);
  return {y * work.row_stride + x * work.column_stride +
              channel * work.channel_stride,
          y, x};
}

__device__ bool is_inside(const Im2col& work, const Corner& corner,
                          const Step& step) {
  const int y = corner.y + step.y, x = corner.x + step.x;
  return y >= 0 && y < work.height && x >= 0 && x < work.width;
}

// Each thread converts eight channels, which are contiguous in input and
// output.
__global__ void im2col_channels_last_kernel(Im2col work, unsigned groups) {
  const auto in_place = static_cast<unsigned>(work.channels / 8);
  const auto kernel_width = static_cast<unsigned>(work.kernel[1]);
  const auto places = static_cast<unsigned>(work.kernel[0]) * kernel_width;
  const auto* from = static_cast<const __half*>(work.from);
  const float factor = factor_of(work.amax[0]);
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < groups;
       i += gridDim.x * blockDim.x) {
    const unsigned channel = i % in_place * 8;
    const unsigned place = i / in_place % places;
    const unsigned row = i / in_place / places;
    const Corner corner = corner_of(work, row);
    const Step step =
        step_of(work, place / kernel_width, place % kernel_width, channel);
    unsigned words[2] = {0, 0};
    if (is_inside(work, corner, step)) {
      const auto piece =
          Piece<__half>::load(from + corner.offset + step.offset, 0);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        words[j / 4] |= quantized(piece[j], factor) << (j % 4 * 8);
    }
    auto* to = reinterpret_cast<uint2*>(work.to + row * work.to_columns +
                                        place * work.channels + channel);
    *to = make_uint2(words[0], words[1]);
  }
}

constexpr int kTileRows = kWarp;
constexpr int kTileColumns = 128;
// One word of padding, so that a column's elements are in different banks.
constexpr int kTileWords = kTileColumns / 4 + 1;

__device__ Step step_of_column(const Im2col& work, unsigned column) {
  const auto height = static_cast<unsigned>(work.kernel[0]);
  const auto width = static_cast<unsigned>(work.kernel[1]);
  return step_of(work, column / width % height, column % width,
                 column / width / height);
}

// A block produces 32 rows x 128 columns. A warp reads one column at a time,
// whose rows are adjacent along x; then each thread writes 16 bytes of a row.
__global__ void im2col_kernel(Im2col work, unsigned rows, unsigned columns) {
  __shared__ unsigned tile[kTileRows][kTileWords];
  __shared__ Step steps[kTileColumns];
  auto* bytes = reinterpret_cast<unsigned char*>(tile);
  const auto* from = static_cast<const __half*>(work.from);
  const unsigned first_row = blockIdx.x * kTileRows;
  const unsigned first_column = blockIdx.y * kTileColumns;
  const float factor = factor_of(work.amax[0]);
  if (threadIdx.x < kTileColumns)
    steps[threadIdx.x] = step_of_column(work, first_column + threadIdx.x);
  __syncthreads();
  const unsigned lane = threadIdx.x % kWarp;
  const bool has_row = first_row + lane < rows;
  const Corner corner = corner_of(work, has_row ? first_row + lane : 0);
  for (unsigned i = threadIdx.x / kWarp; i < kTileColumns;
       i += kThreads / kWarp) {
    unsigned value = 0;
    if (has_row && first_column + i < columns &&
        is_inside(work, corner, steps[i]))
      value =
          quantized(to_float(from[corner.offset + steps[i].offset]), factor);
    bytes[lane * kTileWords * 4 + i] = static_cast<unsigned char>(value);
  }
  __syncthreads();
  const unsigned row = threadIdx.x / (kTileColumns / 16);
  const unsigned piece = threadIdx.x % (kTileColumns / 16);
  const std::int64_t column = first_column + piece * 16;
  if (first_row + row >= rows) return;
  const unsigned* words = &tile[row][piece * 4];
  auto* to = reinterpret_cast<uint2*>(
      work.to + std::int64_t{first_row + row} * work.to_columns + column);
  // Rows of the result are aligned to 8 bytes.
  if (column < work.to_columns) to[0] = make_uint2(words[0], words[1]);
  if (column + 8 < work.to_columns) to[1] = make_uint2(words[2], words[3]);
}

struct Column {
  float scale, bias;
};

__device__ Column column_of(const Dequantize& work, std::int64_t column) {
  const float other = work.amax_by[work.has_amax_by_column ? column : 0];
  const auto* bias = static_cast<const __half*>(work.bias);
  return {work.amax[0] * (1 / kSteps) * (other * (1 / kSteps)),
          bias ? __half2float(bias[column]) : 0.0f};
}

__device__ float dequantized(std::int32_t sum, const Column& column) {
  return static_cast<float>(sum) * column.scale + column.bias;
}

// Each thread converts eight columns.
__global__ void dequantize_pieces_kernel(Dequantize work, unsigned groups) {
  const auto in_row = static_cast<unsigned>(work.columns / 8);
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < groups;
       i += gridDim.x * blockDim.x) {
    const unsigned column = i % in_row * 8;
    const auto* from = reinterpret_cast<const int4*>(
        work.from + i / in_row * work.row_stride + column);
    const int4 sums[2] = {from[0], from[1]};
    const auto* sum = reinterpret_cast<const std::int32_t*>(sums);
    uint4 bytes;
    auto* result = reinterpret_cast<__half*>(&bytes);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      result[j] =
          __float2half_rn(dequantized(sum[j], column_of(work, column + j)));
    static_cast<uint4*>(work.to)[i] = bytes;
  }
}

__global__ void dequantize_kernel(Dequantize work) {
  const std::int64_t count = work.rows * work.columns;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < count; i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t row = i / work.columns, column = i % work.columns;
    static_cast<__half*>(work.to)[i] = __float2half_rn(dequantized(
        work.from[row * work.row_stride + column], column_of(work, column)));
  }
}

constexpr int kPixelTile = 2 * kWarp;

// A block transposes 64 pixels x 32 columns: it reads along columns and writes
// along pixels.
__global__ void dequantize_planes_kernel(Dequantize work) {
  __shared__ float tile[kPixelTile][kWarp + 1];
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kPixelTile;
  const std::int64_t first_column = std::int64_t{blockIdx.y} * kWarp;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  if (first_column + lane < work.columns) {
    const Column column = column_of(work, first_column + lane);
    for (int i = warp; i < kPixelTile; i += kThreads / kWarp)
      if (first_row + i < work.rows)
        tile[i][lane] = dequantized(
            work.from[(first_row + i) * work.row_stride + first_column + lane],
            column);
  }
  __syncthreads();
  auto* to = static_cast<__half*>(work.to);
  for (int half = 0; half < kPixelTile; half += kWarp) {
    const std::int64_t row = first_row + half + lane;
    if (row >= work.rows) continue;
    const auto pixels = static_cast<unsigned>(work.pixels);
    const std::int64_t image = static_cast<unsigned>(row) / pixels;
    const std::int64_t pixel = static_cast<unsigned>(row) % pixels;
    for (int i = warp; i < kWarp; i += kThreads / kWarp) {
      const std::int64_t column = first_column + i;
      if (column < work.columns)
        to[(image * work.columns + column) * work.pixels + pixel] =
            __float2half_rn(tile[half + lane][i]);
    }
  }
}

template <class Body>
void for_type(Type type, const Body& body) {
  if (type == Type::kF32) body(float{});
  if (type == Type::kF16) body(__half{});
  if (type == Type::kBf16) body(__nv_bfloat16{});
}

unsigned grid_of(std::int64_t count, std::int64_t tile) {
  return static_cast<unsigned>((count + tile - 1) / tile);
}

}  // namespace

bool are_built() { return true; }

int capability(int device) {
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return 10 * major + minor;
}

std::string device_name(int device) {
  cudaDeviceProp properties;
  return cudaGetDeviceProperties(&properties, device) == cudaSuccess
             ? properties.name
             : "";
}

void amax(const void* from, Type type, std::size_t count, float* result,
          Stream stream) {
  check(cudaMemsetAsync(result, 0, sizeof(float), native(stream)), "amax");
  const auto elements = static_cast<std::int64_t>(count);
  for_type(type, [&](auto zero) {
    using T = decltype(zero);
    amax_kernel<T><<<blocks_for(elements / Piece<T>::kCount + 1), kThreads, 0,
                     native(stream)>>>(static_cast<const T*>(from), elements,
                                       is_aligned(from), result);
  });
  check(cudaGetLastError(), "amax");
}

void amax_rows(const void* from, Type type, std::int64_t rows,
               std::int64_t columns, float* result, Stream stream) {
  if (rows == 0) return;
  for_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool has_pieces = is_aligned(from) && columns % Piece<T>::kCount == 0;
    amax_rows_kernel<T>
        <<<static_cast<unsigned>(rows), kThreads, 0, native(stream)>>>(
            static_cast<const T*>(from), columns, has_pieces, result);
  });
  check(cudaGetLastError(), "amax_rows");
}

void quantize(const Quantize& work, Stream stream) {
  for_type(work.type, [&](auto zero) {
    quantize_of<decltype(zero)>(work, native(stream));
  });
  check(cudaGetLastError(), "quantize");
}

void im2col(const Im2col& work, Stream stream) {
  if (work.rows() == 0) return;
  check_size(work.rows() * work.columns(), "im2col");
  if (work.is_channels_last) {
    im2col_channels_last_kernel<<<blocks_for(work.rows() * work.columns() / 8),
                                  kThreads, 0, native(stream)>>>(
        work, static_cast<unsigned>(work.rows() * work.columns() / 8));
  } else {
    const dim3 grid(grid_of(work.rows(), kTileRows),
                    grid_of(work.to_columns, kTileColumns));
    im2col_kernel<<<grid, kThreads, 0, native(stream)>>>(
        work, static_cast<unsigned>(work.rows()),
        static_cast<unsigned>(work.columns()));
  }
  check(cudaGetLastError(), "im2col");
}

void dequantize(const Dequantize& work, Stream stream) {
  if (work.rows == 0 || work.columns == 0) return;
  const std::int64_t count = work.rows * work.columns;
  check_size(std::max(count / 8, work.rows), "dequantize");
  if (work.pixels > 0) {
    const dim3 grid(grid_of(work.rows, kPixelTile),
                    grid_of(work.columns, kWarp));
    dequantize_planes_kernel<<<grid, kThreads, 0, native(stream)>>>(work);
  } else if (work.columns % 8 == 0 && work.row_stride % 4 == 0 &&
             is_aligned(work.from) && is_aligned(work.to)) {
    dequantize_pieces_kernel<<<blocks_for(count / 8), kThreads, 0,
                               native(stream)>>>(
        work, static_cast<unsigned>(count / 8));
  } else {
    dequantize_kernel<<<blocks_for(count), kThreads, 0, native(stream)>>>(work);
  }
  check(cudaGetLastError(), "dequantize");
}

}  // namespace sheaf::parallel::cast_kernels
