#include "sheaf/parallel/low_rank.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "sheaf/parallel/small_matrix.hpp"

namespace sheaf::parallel {
namespace {

const MatrixLoops& loops() { return *supported_loops().back(); }

std::size_t size_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

// The rows of several tensors, as if they were one.
template <class T>
class Thin {
 public:
  explicit Thin(std::int64_t width) : width_(width) {}

  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t width() const { return width_; }
  const T* row(std::int64_t i) const { return rows_[size_of(i)]; }

  void add(const at::Tensor& given) {
    parts_.push_back(given.to(kType).contiguous());
    for (std::int64_t i = 0; i < given.size(0); ++i)
      rows_.push_back(parts_.back().template data_ptr<T>() + i * width_);
  }
  std::vector<double> gram() const {
    std::vector<double> out(rows_.size() * rows_.size());
    if constexpr (std::is_same_v<T, float>)
      loops().gram(view(), out.data());
    else
      loops().gram_double(view(), out.data());
    return out;
  }
  // coefficients (count x rows) times the rows.
  at::Tensor combined(const std::vector<T>& coefficients,
                      std::int64_t count) const {
    const at::Tensor out = at::empty({count, width_}, kType);
    auto* to = out.data_ptr<T>();
    if constexpr (std::is_same_v<T, float>)
      loops().combine(view(), coefficients.data(), count, to);
    else
      loops().combine_double(view(), coefficients.data(), count, to);
    return out;
  }

 private:
  static constexpr auto kType = c10::CppTypeToScalarType<T>::value;
  RowsOf<T> view() const { return {rows_.data(), count(), width_}; }

  std::int64_t width_;
  std::vector<at::Tensor> parts_;  // which the rows are of
  std::vector<const T*> rows_;
};

template <class T>
std::vector<T> transposed(const Thin<T>& thin) {
  std::vector<T> out;
  for (std::int64_t c = 0; c < thin.width(); ++c)
    for (std::int64_t i = 0; i < thin.count(); ++i)
      out.push_back(thin.row(i)[c]);
  return out;
}

// What becomes of the product N^T W of a narrow and a wide factor. With no more
// columns than rows N^T W itself is the wide factor of fewer rows.
template <class T>
class Reduction {
 public:
  struct Pair {
    at::Tensor narrow;
    at::Tensor wide;
  };

  Reduction(Thin<T> narrow, Thin<T> wide)
      : narrow_(std::move(narrow)), wide_(std::move(wide)) {
    if (narrow_.count() < narrow_.width()) return;
    const std::int64_t width = narrow_.width();
    const at::Tensor product = wide_.combined(transposed(narrow_), width);
    narrow_ = Thin<T>(width);
    narrow_.add(at::eye(width, product.scalar_type()));
    wide_ = Thin<T>(wide_.width());
    wide_.add(product);
  }

  // False for numbers that are none.
  bool find(const LowRankOptions& options) {
    a_ = narrow_.gram();
    b_ = wide_.gram();
    const std::int64_t n = narrow_.count();
    const std::int64_t most = std::min<std::int64_t>(options.rank, n);
    const std::int64_t block = in_panels(std::min(n, most + kMore));
    work_.resize(work_size(n, block));
    problem_ = {n, block, most, a_.data(), b_.data(), work_.data()};
    found_ = loops().find_largest(problem_);
    if (!std::isfinite(found_.total)) return false;
    choose_rank(options.tolerance);
    return true;
  }

  // x^T N has rows of length one, the rows of (A x)^T W are as long as the
  // singular values, whose `power` is moved to the narrow side.
  Pair best(int power) const {
    std::vector<Scale> scales;
    for (std::int64_t c = 0; c < rank_; ++c)
      scales.push_back({c, std::pow(found_.values[c], 0.5 * power)});
    return combined(found_, problem_.block, scales);
  }

  Pair rest(std::int64_t limit) const {
    const std::int64_t n = problem_.n;
    const std::int64_t block = in_panels(std::min(limit, n - rank_));
    std::vector<double> work(work_size(n, block));
    const Pairs left =
        loops().find_rest({&problem_, &found_, rank_, block, work.data()});
    std::vector<Scale> scales;
    for (std::int64_t c = 0; c < std::min(block, limit); ++c)
      if (left.values[c] > 0) scales.push_back({c, 1});
    return combined(left, block, scales);
  }

 private:
  // More columns than wanted, so that those converge sooner.
  static constexpr std::int64_t kMore = 4;
  // Below which part of the largest a value, which is a square, is rounding.
  static constexpr double kTiny = std::is_same_v<T, double> ? 1e-13 : 6e-7;

  // The fewest whose rest has at most `tolerance` of the norm.
  void choose_rank(double tolerance) {
    const double* square = found_.values;
    const double allowed = tolerance * tolerance * found_.total;
    double rest = found_.total;
    while (rank_ < problem_.wanted && square[rank_] > kTiny * square[0] &&
           (rest > allowed || tolerance <= 0))
      rest -= square[rank_++];
  }

  static std::int64_t in_panels(std::int64_t columns) {
    return (columns + kPanel - 1) / kPanel * kPanel;
  }
  static std::size_t work_size(std::int64_t n, std::int64_t block) {
    return size_of(4 * n * block + 3 * block * block + block);
  }

  struct Scale {
    std::int64_t column;
    double factor;  // of the narrow side; the wide side is divided by it
  };
  Pair combined(const Pairs& pairs, std::int64_t block,
                const std::vector<Scale>& scales) const {
    std::vector<T> x;
    std::vector<T> ax;
    for (const auto& [column, factor] : scales)
      for (std::int64_t i = 0; i < problem_.n; ++i) {
        const std::int64_t at = i * block + column;
        x.push_back(static_cast<T>(pairs.x[at] * factor));
        ax.push_back(static_cast<T>(pairs.ax[at] / factor));
      }
    const auto count = static_cast<std::int64_t>(scales.size());
    return {narrow_.combined(x, count), wide_.combined(ax, count)};
  }

  Thin<T> narrow_;
  Thin<T> wide_;
  std::vector<double> a_;  // N N^T
  std::vector<double> b_;  // W W^T
  std::vector<double> work_;
  PairsProblem problem_{};
  Pairs found_{};
  std::int64_t rank_ = 0;
};

template <class T>
Factors reduce(const Factors& given, const LowRankOptions& options,
               Factors* rest) {
  Thin<T> inputs(given.inputs.size(1));
  Thin<T> deltas(given.deltas.size(1));
  inputs.add(given.inputs);
  deltas.add(given.deltas);
  if (rest && rest->inputs.defined()) {
    inputs.add(rest->inputs);
    deltas.add(rest->deltas);
  }
  const bool is_in_narrow = inputs.width() < deltas.width();
  if (is_in_narrow) std::swap(inputs, deltas);
  Reduction<T> reduction(std::move(deltas), std::move(inputs));
  const auto factors = [&](const typename Reduction<T>::Pair& pair) {
    const auto type = given.inputs.scalar_type();
    const at::Tensor narrow = pair.narrow.to(type);
    const at::Tensor wide = pair.wide.to(type);
    return is_in_narrow ? Factors{narrow, wide} : Factors{wide, narrow};
  };
  // Numbers that are none reach everyone, as without low rank.
  if (!reduction.find(options)) {
    if (rest) *rest = {};
    return given;
  }
  if (rest) *rest = factors(reduction.rest(options.feedback_rows));
  return factors(reduction.best(is_in_narrow ? 0 : 1));
}

}  // namespace

Factors low_rank(const Factors& given, const LowRankOptions& options,
                 Factors* rest) {
  const at::NoGradGuard no_grad;
  if (given.inputs.scalar_type() == at::kDouble)
    return reduce<double>(given, options, rest);
  return reduce<float>(given, options, rest);
}

Factors power_iteration(const Factors& full, int rank, int iterations,
                        double tolerance, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  const at::Tensor b = full.deltas.t();
  const at::Tensor c = full.inputs.t();
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
    if (units.size() >= 2 &&
        (vector - units.back()).norm().item<double>() < tolerance)
      break;
    lefts.push_back(sigma * vector);
    rights.push_back(image / sigma);
    units.push_back(vector);
    squares.push_back(sigma * sigma);
  }
  if (lefts.empty())
    return {full.inputs.narrow(0, 0, 0), full.deltas.narrow(0, 0, 0)};
  return {at::stack(rights), at::stack(lefts)};
}

}  // namespace sheaf::parallel
