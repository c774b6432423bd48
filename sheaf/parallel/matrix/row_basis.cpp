#include "sheaf/parallel/matrix/row_basis.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "sheaf/parallel/matrix/small_matrix.hpp"

namespace sheaf::parallel {
namespace {

const MatrixLoops& widest_loops() { return *supported_loops().back(); }

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
constexpr auto kTypeOf = c10::CppTypeToScalarType<T>::value;

// Squared length of the component of a unit row outside the span of other rows,
// below which it is a rounding error of the Gram matrix.
constexpr double kDependent = 1e-13;

// Computes L of a symmetric matrix L L^T with a diagonal of ones or zeros, by
// columns, largest pivots first.
class PivotedCholesky {
 public:
  explicit PivotedCholesky(const std::vector<double>& gram, std::int64_t n)
      : gram_(gram), n_(n), l(gram.size()), left_(place(n)) {
    for (std::int64_t i = 0; i < n; ++i) left_[place(i)] = at(i, i);
    while (size < n && add_column()) ++size;
  }

 private:
  double at(std::int64_t i, std::int64_t j) const {
    return gram_[place(i * n_ + j)];
  }
  bool add_column() {
    const auto best = std::max_element(left_.begin(), left_.end());
    if (!(*best > kDependent)) return false;
    const std::int64_t pivot = best - left_.begin();
    const double root = std::sqrt(*best);
    const double* const above = &l[place(pivot * n_)];
    for (std::int64_t i = 0; i < n_; ++i) {
      if (i == pivot || left_[place(i)] < 0) continue;  // skips pivots
      double* const row = &l[place(i * n_)];
      double sum = at(i, pivot);
      for (std::int64_t c = 0; c < size; ++c) sum -= row[c] * above[c];
      row[size] = sum / root;
      left_[place(i)] = std::max(0.0, left_[place(i)] - row[size] * row[size]);
    }
    l[place(pivot * n_ + size)] = root;
    left_[place(pivot)] = -1;
    order.push_back(pivot);
    return true;
  }

  const std::vector<double>& gram_;
  const std::int64_t n_;

 public:
  std::vector<double> l;  // n x n, of which `size` columns are used
  std::vector<std::int64_t> order;
  std::int64_t size = 0;

 private:
  std::vector<double> left_;  // remaining squared lengths
};

}  // namespace

template <class T>
void ThinRows<T>::add(const at::Tensor& given) {
  parts_.push_back(given.to(kTypeOf<T>).contiguous());
  for (std::int64_t i = 0; i < given.size(0); ++i)
    rows_.push_back(parts_.back().template data_ptr<T>() + i * width_);
}

template <class T>
ThinRows<T> ThinRows<T>::chosen(const std::vector<std::int64_t>& order) const {
  ThinRows some(width_);
  some.parts_ = parts_;
  for (const std::int64_t i : order) some.rows_.push_back(row(i));
  return some;
}

template <class T>
at::Tensor ThinRows<T>::as_matrix() const {
  const at::Tensor all = at::empty({count(), width_}, kTypeOf<T>);
  T* to = all.template data_ptr<T>();
  for (const T* row : rows_) to = std::copy_n(row, width_, to);
  return all;
}

template <class T>
std::vector<double> ThinRows<T>::gram() const {
  std::vector<double> out(rows_.size() * rows_.size());
  const RowsOf<T> view{rows_.data(), count(), width_};
  if constexpr (std::is_same_v<T, float>)
    widest_loops().gram(view, out.data());
  else
    widest_loops().gram_double(view, out.data());
  return out;
}

template <class T>
at::Tensor ThinRows<T>::combined(const std::vector<T>& coefficients,
                                 std::int64_t count) const {
  const at::Tensor out = at::empty({count, width_}, kTypeOf<T>);
  const RowsOf<T> view{rows_.data(), this->count(), width_};
  auto* to = out.template data_ptr<T>();
  if constexpr (std::is_same_v<T, float>)
    widest_loops().combine(view, coefficients.data(), count, to);
  else
    widest_loops().combine_double(view, coefficients.data(), count, to);
  return out;
}

template <class T>
bool ThinRows<T>::normalize(std::vector<int>& exponents) {
  const at::Tensor all = as_matrix();
  T* row = all.template data_ptr<T>();
  exponents.assign(rows_.size(), 0);
  for (std::size_t i = 0; i < rows_.size(); ++i, row += width_) {
    T most = 0;
    for (std::int64_t c = 0; c < width_; ++c) {
      if (!std::isfinite(row[c])) return false;
      most = std::max(most, std::abs(row[c]));
    }
    if (most == 0) continue;
    exponents[i] = std::ilogb(most);
    for (std::int64_t c = 0; c < width_; ++c)
      row[c] = std::ldexp(row[c], -exponents[i]);
  }
  parts_.clear();
  rows_.clear();
  add(all);
  return true;
}

template <class T>
RowBasis<T>::RowBasis(const ThinRows<T>& rows, const std::vector<double>& gram)
    : rows_(rows.width()) {
  for (std::int64_t i = 0; i < rows.count(); ++i)
    lengths_.push_back(std::sqrt(gram[place(i * (rows.count() + 1))]));
  if constexpr (std::is_same_v<T, float>)
    decompose_gram(rows, gram);
  else
    decompose_rows(rows);
}

template <class T>
void RowBasis<T>::decompose_gram(const ThinRows<T>& rows,
                                 const std::vector<double>& gram) {
  const std::int64_t n = rows.count();
  std::vector<double> ones = gram;  // the Gram matrix of the normalized rows
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const double by = lengths_[place(i)] * lengths_[place(j)];
      double& one = ones[place(i * n + j)];
      one = by > 0 ? one / by : 0;
    }
  PivotedCholesky cholesky(ones, n);
  size_ = cholesky.size;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t c = 0; c < size_; ++c)
      l_.push_back(cholesky.l[place(i * n + c)]);
  order_ = cholesky.order;
  rows_ = rows.chosen(order_);
}

template <class T>
void RowBasis<T>::decompose_rows(const ThinRows<T>& rows) {
  const std::int64_t n = rows.count();
  const auto [q, r] = at::linalg_qr(rows.as_matrix().t());
  size_ = q.size(1);
  rows_.add(q.t());
  const at::Tensor l = r.t().to(at::kDouble).contiguous();  // n x size
  const double* from = l.data_ptr<double>();
  l_.assign(from, from + n * size_);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t c = 0; c < size_; ++c) {
      double& one = l_[place(i * size_ + c)];
      one = lengths_[place(i)] > 0 ? one / lengths_[place(i)] : 0;
    }
}

template <class T>
void RowBasis<T>::solve(double* x) const {
  if (order_.empty()) return;
  const auto pivot_row = [this](std::int64_t c) {
    return &l_[place(order_[place(c)] * size_)];
  };
  for (std::int64_t j = size_; j-- > 0;) {
    const double* const row = pivot_row(j);
    x[j] /= row[j];
    for (std::int64_t c = 0; c < j; ++c) x[c] -= x[j] * row[c];
    x[j] /= lengths_[place(order_[place(j)])];
  }
}

template <class T>
at::Tensor RowBasis<T>::combined(std::vector<double> coefficients,
                                 std::int64_t count, int exponent) const {
  std::vector<T> rounded;
  for (std::int64_t i = 0; i < count; ++i) {
    solve(&coefficients[place(i * size_)]);
    for (std::int64_t c = 0; c < size_; ++c)
      rounded.push_back(static_cast<T>(
          std::ldexp(coefficients[place(i * size_ + c)], exponent)));
  }
  return rows_.combined(rounded, count);
}

template class ThinRows<float>;
template class ThinRows<double>;
template class RowBasis<float>;
template class RowBasis<double>;

}  // namespace sheaf::parallel
