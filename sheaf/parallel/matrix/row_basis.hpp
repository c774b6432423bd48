#pragma once
// Expresses the rows of a thin matrix as combinations of orthonormal rows.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sheaf::parallel {

// The rows of several tensors, treated as one matrix.
template <class T>
class ThinRows {
 public:
  explicit ThinRows(std::int64_t width) : width_(width) {}

  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t width() const { return width_; }
  const T* row(std::int64_t i) const {
    return rows_[static_cast<std::size_t>(i)];
  }
  void add(const at::Tensor& given);
  // The given rows, in the given order.
  ThinRows chosen(const std::vector<std::int64_t>& order) const;
  at::Tensor as_matrix() const;

  // The Gram matrix (count x count): inner products of all pairs of rows.
  std::vector<double> gram() const;
  // coefficients (count x rows) times the rows.
  at::Tensor combined(const std::vector<T>& coefficients,
                      std::int64_t count) const;

  // Divides each row by a power of two, so that its largest element is between
  // 1 and 2, and stores the exponents. Returns false if a number is not finite.
  bool normalize(std::vector<int>& exponents);

 private:
  std::int64_t width_;
  std::vector<at::Tensor> parts_;  // own the memory of the rows
  std::vector<const T*> rows_;
};

// row i = length i * (row i of L) * orthonormal rows, up to the rounding of T.
// Rows may be zero or linearly dependent. Floats use a Cholesky decomposition
// of the Gram matrix in double, with the largest pivot first. Doubles, of which
// the Gram matrix would lose half of the digits, use Householder QR.
template <class T>
class RowBasis {
 public:
  RowBasis(const ThinRows<T>& rows, const std::vector<double>& gram);

  std::int64_t size() const { return size_; }  // number of orthonormal rows
  // L in row-major order.
  const std::vector<double>& l() const { return l_; }  // rows x size
  const std::vector<double>& lengths() const { return lengths_; }
  // coefficients (count x size) times the orthonormal rows, times 2^exponent.
  at::Tensor combined(std::vector<double> coefficients, std::int64_t count,
                      int exponent) const;

 private:
  void decompose_gram(const ThinRows<T>& rows, const std::vector<double>& gram);
  void decompose_rows(const ThinRows<T>& rows);
  // Converts coefficients of the orthonormal rows to coefficients of `rows_`.
  void solve(double* coefficients) const;

  std::int64_t size_ = 0;
  std::vector<double> l_;
  std::vector<double> lengths_;
  // Pivot order; empty: rows_ are orthonormal.
  std::vector<std::int64_t> order_;
  ThinRows<T> rows_;  // the rows to be combined
};

extern template class ThinRows<float>;
extern template class ThinRows<double>;
extern template class RowBasis<float>;
extern template class RowBasis<double>;

}  // namespace sheaf::parallel
