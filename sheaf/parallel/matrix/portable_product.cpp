#include "sheaf/parallel/matrix/portable_product.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <cmath>
#include <type_traits>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/matrix/small_matrix.hpp"

namespace sheaf::parallel {
namespace {

// The minimum number of terms per thread.
constexpr std::int64_t kTermsPerThread = 1 << 16;

template <class T>
at::Tensor product_of(const at::Tensor& a, const at::Tensor& b) {
  const std::int64_t inner = b.size(0), width = b.size(1);
  const at::Tensor out = at::empty({a.size(0), width}, a.options());
  std::vector<const T*> rows;
  for (std::int64_t i = 0; i < inner; ++i)
    rows.push_back(b.data_ptr<T>() + i * width);
  const MatrixLoops& loops = *supported_loops().back();
  const RowsOf<T> view{rows.data(), inner, width};
  const T* const from = a.data_ptr<T>();
  T* const to = out.data_ptr<T>();
  const std::int64_t grain =
      1 + kTermsPerThread / std::max<std::int64_t>(1, inner * width);
  at::parallel_for(0, a.size(0), grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     if constexpr (std::is_same_v<T, float>)
                       loops.combine(view, from + begin * inner, end - begin,
                                     to + begin * width);
                     else
                       loops.combine_double(view, from + begin * inner,
                                            end - begin, to + begin * width);
                   });
  return out;
}

// A column of a row-major matrix.
struct Column {
  double* first;
  std::int64_t rows;
  std::int64_t stride;

  double& operator[](std::int64_t i) const { return first[i * stride]; }
  double length() const {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += (*this)[i] * (*this)[i];
    return std::sqrt(sum);
  }
  void divide(double by) const {
    for (std::int64_t i = 0; i < rows; ++i) (*this)[i] /= by;
  }
  void subtract_part_in(const Column& other) const {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += (*this)[i] * other[i];
    for (std::int64_t i = 0; i < rows; ++i) (*this)[i] -= sum * other[i];
  }
  void fill_any(std::uint64_t state) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      (*this)[i] =
          static_cast<double>(static_cast<std::int64_t>(state)) * 0x1p-63;
    }
  }
  // Scales the column to length one; returns false if it contains only rounding
  // errors.
  bool normalize(double least) const {
    const double size = length();
    if (!(size > least)) return false;
    divide(size);
    return true;
  }
};

}  // namespace

at::Tensor portable_product(const at::Tensor& a, const at::Tensor& b) {
  SHEAF_ASSERT(a.size(1) == b.size(0), a.sizes(), " times ", b.sizes());
  const at::ScalarType type = a.scalar_type();
  if (type == at::kDouble)
    return product_of<double>(a.contiguous(), b.contiguous());
  return product_of<float>(a.to(at::kFloat).contiguous(),
                           b.to(at::kFloat).contiguous())
      .to(type);
}

void add_rows_in_order(const at::Tensor& table, const at::Tensor& indices,
                       const at::Tensor& rows) {
  const at::Tensor from = rows.contiguous();
  const at::Tensor places = indices.contiguous();
  const std::int64_t* const place = places.data_ptr<std::int64_t>();
  const std::int64_t count = places.numel(), width = from.size(1);
  const std::int64_t row_stride = table.stride(0), stride = table.stride(1);
  const std::int64_t grain =
      1 + kTermsPerThread / std::max<std::int64_t>(1, count);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, table.scalar_type(), "add_rows_in_order", [&] {
        const auto* const source = from.data_ptr<scalar_t>();
        auto* const target = table.data_ptr<scalar_t>();
        at::parallel_for(0, width, grain,
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = 0; i < count; ++i)
                             for (std::int64_t c = begin; c < end; ++c)
                               target[place[i] * row_stride + c * stride] +=
                                   source[i * width + c];
                         });
      });
}

void orthonormalize_columns(const at::Tensor& matrix) {
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  SHEAF_ASSERT(matrix.is_contiguous() && columns <= rows, matrix.sizes());
  double* const data = matrix.data_ptr<double>();
  const auto column = [&](std::int64_t i) {
    return Column{data + i, rows, columns};
  };
  // Two passes suffice if the second one leaves the column nearly unchanged.
  const auto is_own = [&](std::int64_t j) {
    for (const double least : {1e-14, 0.5}) {
      for (std::int64_t i = 0; i < j; ++i)
        column(j).subtract_part_in(column(i));
      if (!column(j).normalize(least)) return false;
    }
    return true;
  };
  std::uint64_t seed = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    bool is_done = column(j).normalize(0) && is_own(j);
    while (!is_done) {
      column(j).fill_any(++seed);
      is_done = column(j).normalize(0) && is_own(j);
    }
  }
}

}  // namespace sheaf::parallel
