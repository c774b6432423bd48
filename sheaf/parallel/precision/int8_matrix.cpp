#include "sheaf/parallel/precision/int8_matrix.hpp"

#include <ATen/Functions.h>

#include <type_traits>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/int8_product.hpp"

// Replacement for libtorch versions without _int_mm(); overload resolution
// chooses it there.
namespace sheaf_no_int_mm {
struct Nothing {};
template <class... Ignored>
Nothing _int_mm(const Ignored&...) {
  return {};
}
}  // namespace sheaf_no_int_mm

namespace sheaf::parallel {

bool has_integer_product() {
  using namespace at;
  using namespace sheaf_no_int_mm;
  const at::Tensor* none = nullptr;
  return !std::is_same_v<decltype(_int_mm(*none, *none)), Nothing>;
}

namespace int8 {
namespace {

template <class A, class B>
at::Tensor integer_product(const A& a, const B& b) {
  using namespace at;
  using namespace sheaf_no_int_mm;
  if constexpr (std::is_same_v<decltype(_int_mm(a, b)), Nothing>)
    throw UsageError("this libtorch has no int8 matrix product");
  else
    return _int_mm(a, b);
}

at::Tensor amax_of_rows(const at::Tensor& matrix) {
  const RecordedCall recorded("sheaf::amax");
  at::Tensor result =
      at::empty({matrix.size(0)}, matrix.options().dtype(at::kFloat));
  cast_kernels::amax_rows(matrix.data_ptr(), cast_kernels::Type::kF16,
                          matrix.size(0), matrix.size(1),
                          result.data_ptr<float>(), stream_of(matrix));
  return result;
}

}  // namespace

std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

cast_kernels::Stream stream_of(const at::Tensor& tensor) {
  return cast_kernels::current_stream(tensor.device().index());
}

at::Tensor amax_of(const at::Tensor& x) {
  const RecordedCall recorded("sheaf::amax");
  at::Tensor result = at::empty({1}, x.options().dtype(at::kFloat));
  cast_kernels::amax(x.data_ptr(), cast_kernels::Type::kF16,
                     static_cast<std::size_t>(x.numel()),
                     result.data_ptr<float>(), stream_of(x));
  return result;
}

Int8Matrix quantized(const at::Tensor& matrix, at::Tensor amax,
                     std::int64_t rows, std::int64_t columns) {
  const RecordedCall recorded("sheaf::quantize");
  Int8Matrix result{
      at::empty({rows, columns}, matrix.options().dtype(at::kChar)),
      std::move(amax)};
  cast_kernels::Quantize work;
  work.from = matrix.data_ptr();
  work.rows = matrix.size(0);
  work.columns = matrix.size(1);
  work.amax = result.amax.data_ptr<float>();
  work.has_amax_by_row = result.amax.numel() > 1;
  work.to = result.values.data_ptr<std::int8_t>();
  work.to_rows = rows;
  work.to_columns = columns;
  cast_kernels::quantize(work, stream_of(matrix));
  return result;
}

Int8Matrix quantized_weight(const at::Tensor& weight, bool by_channel,
                            std::int64_t inner) {
  return quantized(weight, by_channel ? amax_of_rows(weight) : amax_of(weight),
                   round_up(weight.size(0), kColumnUnit), inner);
}

void multiply(const Int8Matrix& x, const Int8Matrix& weight,
              const at::Tensor& bias, const Output& output) {
  const at::Tensor sums = integer_product(x.values, weight.values.t());
  const RecordedCall recorded("sheaf::dequantize");
  cast_kernels::Dequantize work;
  work.from = sums.data_ptr<std::int32_t>();
  work.rows = output.rows;
  work.columns = output.columns;
  work.row_stride = sums.stride(0);
  work.amax = x.amax.data_ptr<float>();
  work.amax_by = weight.amax.data_ptr<float>();
  work.has_amax_by_column = weight.amax.numel() > 1;
  work.bias = bias.defined() ? bias.data_ptr() : nullptr;
  work.to = output.to;
  work.pixels = output.pixels;
  cast_kernels::dequantize(work, stream_of(sums));
}

}  // namespace int8
}  // namespace sheaf::parallel
