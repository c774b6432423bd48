#pragma once
// The rows of a thin matrix as combinations of orthonormal rows.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sheaf::parallel {

// The rows of several tensors, as if they were one.
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
  // Those rows, in that order.
  ThinRows chosen(const std::vector<std::int64_t>& order) const;
  at::Tensor as_matrix() const;

  // Count x count: the products of rows with rows.
  std::vector<double> gram() const;
  // coefficients (count x rows) times the rows.
  at::Tensor combined(const std::vector<T>& coefficients,
                      std::int64_t count) const;

  // Divides each row by a power of two, which `exponents` gets, so that its
  // largest element is from 1 to 2. False where a number is not finite.
  bool normalize(std::vector<int>& exponents);

 private:
  std::int64_t width_;
  std::vector<at::Tensor> parts_;  // which the rows are of
  std::vector<const T*> rows_;
};

// row i = length i * (row i of L) * orthonormal rows, to the rounding of T:
// rows that depend on others, and zeros, are no harm. For floats by a Cholesky
// decomposition of the gram in double, with the largest pivot first; doubles,
// of which the gram would lose half of the digits, by Householder's method.
template <class T>
class RowBasis {
 public:
  RowBasis(const ThinRows<T>& rows, const std::vector<double>& gram);

  std::int64_t size() const { return size_; }  // orthonormal rows
  // One after the other.
  const std::vector<double>& l() const { return l_; }  // rows x size
  const std::vector<double>& lengths() const { return lengths_; }
  // coefficients (count x size) times the orthonormal rows, times 2^exponent.
  at::Tensor combined(std::vector<double> coefficients, std::int64_t count,
                      int exponent) const;

 private:
  void decompose_gram(const ThinRows<T>& rows, const std::vector<double>& gram);
  void decompose_rows(const ThinRows<T>& rows);
  // Turns coefficients of orthonormal rows into those of `rows_`.
  void solve(double* coefficients) const;

  std::int64_t size_ = 0;
  std::vector<double> l_;
  std::vector<double> lengths_;
  std::vector<std::int64_t> order_;  // of pivots; empty: rows_ are orthonormal
  ThinRows<T> rows_;                 // which combinations are made of
};

extern template class ThinRows<float>;
extern template class ThinRows<double>;
extern template class RowBasis<float>;
extern template class RowBasis<double>;

}  // namespace sheaf::parallel
