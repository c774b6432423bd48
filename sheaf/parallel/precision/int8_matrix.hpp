#pragma once
// Matrices of int8, and their product: what linear layers and convolutions are
// made of (int8_product.hpp). All on CUDA.

#include <ATen/record_function.h>
#include <torch/types.h>

#include "sheaf/parallel/precision/cast_kernels.hpp"

namespace sheaf::parallel::int8 {

// What a product needs of its sizes: more than 16 rows; the rest in eights, of
// which kernels read two at a time.
inline constexpr std::int64_t kLeastRows = 32;
inline constexpr std::int64_t kColumnUnit = 8;
inline constexpr std::int64_t kInnerUnit = 16;

std::int64_t round_up(std::int64_t count, std::int64_t unit);

// Observers see it as an operator.
class Told {
 public:
  explicit Told(const char* name, std::int64_t node = -1)
      : record_(at::RecordScope::FUNCTION) {
    if (record_.isActive()) record_.before(name, node);
  }

 private:
  at::RecordFunction record_;
};

cast_kernels::Stream stream_of(const at::Tensor& tensor);

// Of a tensor in f16 that lies together: its largest magnitude.
at::Tensor amax_of(const at::Tensor& x);

// A matrix in int8, with zeros behind it, and what it was scaled by.
struct Int8Matrix {
  at::Tensor values;
  at::Tensor amax;  // one, or one for each row
};

// A matrix in f16, padded to so many rows and columns.
Int8Matrix quantised(const at::Tensor& matrix, at::Tensor amax,
                     std::int64_t rows, std::int64_t columns);

// out x inner, padded.
Int8Matrix quantised_weight(const at::Tensor& weight, bool by_channel,
                            std::int64_t inner);

// The product of both, of which `rows` are wanted, into `to`.
struct Output {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  void* to = nullptr;
  std::int64_t pixels = 0;  // of an image, where it is to be planes
};

// The bias, in f16, may be undefined.
void multiply(const Int8Matrix& x, const Int8Matrix& weight,
              const at::Tensor& bias, const Output& output);

}  // namespace sheaf::parallel::int8
