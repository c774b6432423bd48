#include "sheaf/parallel/matrix/low_rank.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <memory>
#include <optional>
#include <type_traits>

#include "sheaf/parallel/matrix/row_basis.hpp"
#include "sheaf/parallel/matrix/small_matrix.hpp"

namespace sheaf::parallel {
namespace {

const MatrixLoops& loops() { return *supported_loops().back(); }

std::size_t size_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

template <class T>
std::vector<T> transposed(const ThinRows<T>& thin) {
  std::vector<T> out;
  for (std::int64_t c = 0; c < thin.width(); ++c)
    for (std::int64_t i = 0; i < thin.count(); ++i)
      out.push_back(thin.row(i)[c]);
  return out;
}

bool is_finite(const at::Tensor& tensor) {
  return at::isfinite(tensor).all().item<bool>();
}

double largest(const at::Tensor& tensor) {
  return tensor.numel() > 0 ? tensor.abs().max().item<double>() : 0;
}

// A thin matrix, its Gram matrix, and the powers of two by which its rows were
// divided.
template <class T>
struct Side {
  ThinRows<T> rows;
  std::vector<double> gram;
  std::vector<int> exponents;

  explicit Side(ThinRows<T> given)
      : rows(std::move(given)), exponents(size_of(rows.count())) {
    gram = rows.gram();
  }
  double length2(std::int64_t i) const {
    return gram[size_of(i * (rows.count() + 1))];
  }
  // Whether squares in double and coefficients in T cannot overflow or
  // underflow. A square of zero in double need not come from a row of zeros.
  bool is_moderate() const {
    constexpr bool is_float = std::is_same_v<T, float>;
    constexpr double kMost = is_float ? 1e30 : 1e150;
    for (std::int64_t i = 0; i < rows.count(); ++i)
      if (!(length2(i) <= kMost && length2(i) >= 1 / kMost) &&
          !(is_float && length2(i) == 0))
        return false;
    return true;
  }
  bool normalize() {
    const bool is_finite = rows.normalize(exponents);
    if (is_finite) gram = rows.gram();
    return is_finite;
  }
};

// Reduces the product N^T W of a narrow and a wide factor. If N has no more
// columns than rows, N^T W itself is the wide factor, with fewer rows. With N =
// L Q and W = M P, where Q and P have orthonormal rows, the product is Q^T C P
// with the small matrix C = L^T M.
template <class T>
class Reduction {
 public:
  struct Pair {
    at::Tensor narrow;
    at::Tensor wide;
  };

  Reduction(ThinRows<T> narrow, ThinRows<T> wide) {
    if (narrow.count() >= narrow.width()) {
      const std::int64_t width = narrow.width();
      const at::Tensor product = wide.combined(transposed(narrow), width);
      narrow = ThinRows<T>(width);
      narrow.add(at::eye(width, product.scalar_type()));
      wide = ThinRows<T>(wide.width());
      wide.add(product);
    }
    narrow_ = std::make_unique<Side<T>>(std::move(narrow));
    wide_ = std::make_unique<Side<T>>(std::move(wide));
  }

  // Returns false if a number is not finite.
  bool find(const LowRankOptions& options) {
    if (!narrow_->is_moderate() || !wide_->is_moderate())
      if (!narrow_->normalize() || !wide_->normalize()) return false;
    set_core();
    const std::int64_t most = std::min<std::int64_t>(options.rank, core_.left);
    if (core_.left == 0) return true;
    block_ = in_panels(std::min(core_.left, most + kMore));
    work_.resize(size_of(work_size(core_.n, block_)));
    found_ = loops().find_largest({core_, block_, most, work_.data()});
    choose_rank(options.tolerance, most);
    return true;
  }

  // Narrow rows have length one and wide rows the length of the singular
  // values, or vice versa.
  Pair best(bool has_values_in_narrow) const {
    std::vector<Scale> scales;
    for (std::int64_t c = 0; c < rank_; ++c) {
      const double value = std::sqrt(found_.values[c]);
      scales.push_back({c, has_values_in_narrow ? value : 1});
    }
    return combined(found_, block_, scales, has_values_in_narrow);
  }

  Pair rest(std::int64_t limit) const {
    const std::int64_t block = in_panels(std::min(limit, core_.left - rank_));
    std::vector<Scale> scales;
    Pairs left{};
    std::vector<double> work(size_of(work_size(core_.n, block)));
    if (block > 0)
      left = loops().find_rest(
          {core_, found_.u, block_, rank_, block, work.data()});
    for (std::int64_t c = 0; c < std::min(block, limit); ++c)
      if (left.values[c] > kTiny * found_.values[0]) scales.push_back({c, 1});
    return combined(left, block, scales, /*has_values_in_narrow=*/false);
  }

 private:
  // Additional columns, which make the wanted ones converge faster.
  static constexpr std::int64_t kMore = 4;
  // Values (squares) below this fraction of the largest are rounding errors.
  static constexpr double kTiny = std::is_same_v<T, double> ? 1e-29 : 1e-15;

  // Each pair of rows is weighted by the product of their lengths, divided by
  // 2^exponent_.
  void set_core() {
    const std::int64_t n = narrow_->rows.count();
    q_.emplace(narrow_->rows, narrow_->gram);
    p_.emplace(wide_->rows, wide_->gram);
    std::vector<int> powers;
    std::optional<int> most;
    for (std::int64_t i = 0; i < n; ++i) {
      const double by = q_->lengths()[size_of(i)] * p_->lengths()[size_of(i)];
      powers.push_back(narrow_->exponents[size_of(i)] +
                       wide_->exponents[size_of(i)]);
      if (by > 0)
        most = std::max(most.value_or(INT_MIN), powers.back() + std::ilogb(by));
    }
    exponent_ = most.value_or(0);
    const std::int64_t columns = p_->size();
    std::vector<double> scales;
    for (std::int64_t i = 0; i < n; ++i) {
      scales.push_back(std::ldexp(1, powers[size_of(i)] - exponent_));
      const double by =
          q_->lengths()[size_of(i)] * p_->lengths()[size_of(i)] * scales.back();
      for (std::int64_t c = 0; c < columns; ++c)
        right_.push_back(p_->l()[size_of(i * columns + c)] * by);
    }
    // Without columns, C has no rows either.
    core_ = {
        n, columns > 0 ? q_->size() : 0, columns, q_->l().data(), right_.data(),
        0};
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        core_.total += narrow_->gram[size_of(i * n + j)] * scales[size_of(i)] *
                       wide_->gram[size_of(i * n + j)] * scales[size_of(j)];
  }

  // Chooses the smallest rank whose rest has at most the fraction `tolerance`
  // of the norm.
  void choose_rank(double tolerance, std::int64_t most) {
    const double* square = found_.values;
    double rest = core_.total;
    const double allowed = tolerance * tolerance * rest;
    while (rank_ < most && square[rank_] > kTiny * square[0] &&
           (rest > allowed || tolerance <= 0))
      rest -= square[rank_++];
  }

  static std::int64_t in_panels(std::int64_t columns) {
    return (columns + kPanel - 1) / kPanel * kPanel;
  }

  struct Scale {
    std::int64_t column;
    double factor;  // of the narrow side; the wide side is divided by it
  };
  Pair combined(const Pairs& pairs, std::int64_t block,
                const std::vector<Scale>& scales,
                bool has_values_in_narrow) const {
    std::vector<double> u;
    std::vector<double> z;
    for (const auto& [column, factor] : scales) {
      for (std::int64_t i = 0; i < core_.left; ++i)
        u.push_back(pairs.u[i * block + column] * factor);
      for (std::int64_t i = 0; i < core_.right; ++i)
        z.push_back(pairs.z[i * block + column] / factor);
    }
    const auto count = static_cast<std::int64_t>(scales.size());
    return {q_->combined(u, count, has_values_in_narrow ? exponent_ : 0),
            p_->combined(z, count, has_values_in_narrow ? 0 : exponent_)};
  }

  std::unique_ptr<Side<T>> narrow_;
  std::unique_ptr<Side<T>> wide_;
  std::optional<RowBasis<T>> q_;
  std::optional<RowBasis<T>> p_;
  std::vector<double> right_;  // M, weighted by the lengths of the row pairs
  int exponent_ = 0;
  CoreMatrix core_{};
  std::int64_t block_ = 0;
  std::vector<double> work_;
  Pairs found_{};
  std::int64_t rank_ = 0;
};

struct Reduced {
  Factors best;
  Factors rest;  // undefined if `before` is null
};
// Returns nothing if a number is not finite.
template <class T>
std::optional<Reduced> reduce(const Factors& given, const Factors* before,
                              const LowRankOptions& options) {
  ThinRows<T> inputs(given.inputs.size(1));
  ThinRows<T> deltas(given.deltas.size(1));
  inputs.add(given.inputs);
  deltas.add(given.deltas);
  if (before && before->inputs.defined()) {
    inputs.add(before->inputs);
    deltas.add(before->deltas);
  }
  const bool is_in_narrow = inputs.width() < deltas.width();
  if (is_in_narrow) std::swap(inputs, deltas);
  Reduction<T> reduction(std::move(deltas), std::move(inputs));
  if (!reduction.find(options)) return std::nullopt;
  const auto factors = [&](const typename Reduction<T>::Pair& pair) {
    const auto type = given.inputs.scalar_type();
    const at::Tensor narrow = pair.narrow.to(type);
    const at::Tensor wide = pair.wide.to(type);
    return is_in_narrow ? Factors{narrow, wide} : Factors{wide, narrow};
  };
  Reduced result{factors(reduction.best(!is_in_narrow)), {}};
  if (before) result.rest = factors(reduction.rest(options.feedback_rows));
  return result;
}

// The product of finite numbers may overflow its type.
bool are_finite(const Reduced& all) {
  for (const Factors& one : {all.best, all.rest})
    if (one.inputs.defined() &&
        !(is_finite(one.inputs) && is_finite(one.deltas)))
      return false;
  return true;
}

}  // namespace

Factors low_rank(const Factors& given, const LowRankOptions& options,
                 Factors* rest) {
  const at::NoGradGuard no_grad;
  const auto reduced = given.inputs.scalar_type() == at::kDouble
                           ? reduce<double>(given, rest, options)
                           : reduce<float>(given, rest, options);
  if (!reduced || !are_finite(*reduced)) return given;
  if (rest) *rest = reduced->rest;
  return reduced->best;
}

Factors power_iteration(const Factors& full, int rank, int iterations,
                        double tolerance, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  if (!is_finite(full.inputs) || !is_finite(full.deltas)) return full;
  const Factors none{full.inputs.narrow(0, 0, 0), full.deltas.narrow(0, 0, 0)};
  const double delta_scale = largest(full.deltas);
  const double input_scale = largest(full.inputs);
  if (delta_scale == 0 || input_scale == 0) return none;
  // Normalized, because fourth powers are computed.
  const at::Tensor b = full.deltas.t() / delta_scale;
  const at::Tensor c = full.inputs.t() / input_scale;
  const at::Tensor bcc = b.mm(c.t().mm(c));
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<at::Tensor> lefts, rights, units;
  std::vector<at::Tensor> squares;
  for (int k = 0; k < rank; ++k) {
    at::Tensor vector = at::rand({b.size(0)}, generator, b.options());
    for (int i = 0; i < iterations; ++i) {
      at::Tensor next = bcc.mv(b.t().mv(vector));
      for (std::size_t j = 0; j < units.size(); ++j)
        next = next - squares[j] * units[j] * units[j].dot(vector);
      vector = next / next.norm();
    }
    const at::Tensor image = c.mv(b.t().mv(vector));
    const at::Tensor sigma = image.norm();
    if (!(sigma.item<double>() > 0)) break;
    // The squared error changes by sigma (2 overlap - sigma).
    at::Tensor overlap = at::zeros_like(sigma);
    for (std::size_t j = 0; j < units.size(); ++j)
      overlap = overlap + lefts[j].dot(vector) * rights[j].dot(image / sigma);
    // If no direction is left, rounding errors would bring back earlier ones.
    if (!((2 * overlap - sigma).item<double>() < 0)) break;
    if (units.size() >= 2 &&
        (vector - units.back()).norm().item<double>() < tolerance)
      break;
    lefts.push_back(sigma * vector);
    rights.push_back(image / sigma);
    units.push_back(vector);
    squares.push_back(sigma * sigma);
  }
  if (lefts.empty()) return none;
  return {at::stack(rights), at::stack(lefts) * (delta_scale * input_scale)};
}

}  // namespace sheaf::parallel
