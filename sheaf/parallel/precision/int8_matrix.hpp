#pragma once
// int8 matrices and their product, the basis of linear layers and convolutions
// (int8_product.hpp). CUDA only.

#include <ATen/record_function.h>
#include <torch/types.h>

#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel::int8 {

// Size requirements of the product: more than 16 rows; other sizes a multiple
// of 8, or of 16 for the inner one, because kernels read two groups of eight at
// a time.
inline constexpr std::int64_t kLeastRows = 32;
inline constexpr std::int64_t kColumnUnit = 8;
inline constexpr std::int64_t kInnerUnit = 16;

std::int64_t round_up(std::int64_t count, std::int64_t unit);

// Reports an operation to observers as an operator.
class RecordedCall {
 public:
  explicit RecordedCall(const char* name, std::int64_t node = -1)
      : record_(at::RecordScope::FUNCTION) {
    if (record_.isActive()) record_.before(name, node);
  }

 private:
  at::RecordFunction record_;
};

cast_kernels::Stream stream_of(const at::Tensor& tensor);

// The largest magnitude of a contiguous f16 tensor.
at::Tensor amax_of(const at::Tensor& x);

// A zero-padded int8 matrix and its scale.
struct Int8Matrix {
  at::Tensor values;
  at::Tensor amax;  // one value, or one per row
};

// Quantizes an f16 matrix, padded to the given numbers of rows and columns.
Int8Matrix quantized(const at::Tensor& matrix, at::Tensor amax,
                     std::int64_t rows, std::int64_t columns);

// Quantizes a weight to out x inner, padded.
Int8Matrix quantized_weight(const at::Tensor& weight, bool by_channel,
                            std::int64_t inner);

// Where the product is written: the first `rows` rows, to `to`.
struct Output {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  void* to = nullptr;
  std::int64_t pixels = 0;  // pixels per image, for a result in planes; else 0
};

// `bias` is f16 and may be undefined.
void multiply(const Int8Matrix& x, const Int8Matrix& weight,
              const at::Tensor& bias, const Output& output);

}  // namespace sheaf::parallel::int8
