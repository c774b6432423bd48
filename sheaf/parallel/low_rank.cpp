#include "sheaf/parallel/low_rank.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace sheaf::parallel {
namespace {

// What is added to the diagonal before the decomposition, as part of its mean,
// for inputs may depend on each other; and below which part of the largest an
// eigenvalue, which is a square, is rounding.
struct Rounding {
  double diagonal;
  double tiny;
};
Rounding rounding_of(at::ScalarType type) {
  if (type == at::kDouble) return {1e-14, 1e-13};
  return {2e-7, 6e-7};
}
constexpr int kMostIterations = 40;
// Change of what is found in an iteration, as part of what is left out.
constexpr double kConverged = 2e-3;

struct Spectrum {
  at::Tensor values;   // descending
  at::Tensor vectors;  // columns
};

Spectrum all_of(const at::Tensor& symmetric) {
  const auto [values, vectors] = at::linalg_eigh(symmetric, "L");
  return {values.flip(0).contiguous(), vectors.flip(1)};
}

double trace_of(const at::Tensor& square) {
  const auto* value = square.data_ptr<double>();
  double sum = 0;
  for (std::int64_t i = 0; i < square.size(0); ++i)
    sum += value[i * (square.size(1) + 1)];
  return sum;
}

void add_to_diagonal(const at::Tensor& square, double more) {
  auto* value = square.data_ptr<double>();
  for (std::int64_t i = 0; i < square.size(0); ++i)
    value[i * (square.size(1) + 1)] += more;
}

// Rows of x become orthonormal; those that depend on others become zero.
void orthonormalise(double* x, std::int64_t count, std::int64_t length) {
  for (std::int64_t i = 0; i < count; ++i) {
    double* row = x + i * length;
    for (int twice = 0; twice < 2; ++twice)
      for (std::int64_t j = 0; j < i; ++j) {
        const double* other = x + j * length;
        double dot = 0;
        for (std::int64_t k = 0; k < length; ++k) dot += row[k] * other[k];
        for (std::int64_t k = 0; k < length; ++k) row[k] -= dot * other[k];
      }
    double square = 0;
    for (std::int64_t k = 0; k < length; ++k) square += row[k] * row[k];
    const double scale = square > 1e-280 ? 1 / std::sqrt(square) : 0;
    for (std::int64_t k = 0; k < length; ++k) row[k] *= scale;
  }
}

// The largest `count` by orthogonal iteration with some more columns.
Spectrum largest_of(const at::Tensor& symmetric, std::int64_t count) {
  const std::int64_t n = symmetric.size(0);
  const std::int64_t block = std::min(n, count + 4);
  if (2 * block > n) return all_of(symmetric);
  at::Tensor rows = symmetric.narrow(0, 0, block).clone();  // any will do
  const double total = trace_of(symmetric);
  double before = 0;
  for (int i = 0; i < kMostIterations; ++i) {
    orthonormalise(rows.data_ptr<double>(), block, n);
    const at::Tensor next = rows.mm(symmetric);
    // The trace over the wanted ones.
    const auto* a = rows.data_ptr<double>();
    const auto* b = next.data_ptr<double>();
    double sum = 0;
    for (std::int64_t k = 0; k < count * n; ++k) sum += a[k] * b[k];
    const bool is_done = sum - before <= kConverged * (total - sum);
    before = sum;
    if (is_done) {
      const Spectrum small = all_of(next.mm(rows.t()));
      return {small.values, rows.t().mm(small.vectors)};
    }
    rows = next;
  }
  return all_of(symmetric);
}

std::int64_t count_above(const at::Tensor& descending, double part) {
  const auto* value = descending.data_ptr<double>();
  std::int64_t count = 0;
  while (count < descending.numel() && value[count] > 0 &&
         value[count] > part * value[0])
    ++count;
  return count;
}

// The fewest whose rest has at most `tolerance` of the norm.
std::int64_t rank_for(const at::Tensor& squares, const LowRankOptions& options,
                      std::int64_t full) {
  const std::int64_t most = std::min<std::int64_t>(options.rank, full);
  if (options.tolerance <= 0) return most;
  const auto* value = squares.data_ptr<double>();
  double total = 0;
  for (std::int64_t i = 0; i < full; ++i) total += value[i];
  double rest = total;
  const double allowed = options.tolerance * options.tolerance * total;
  std::int64_t rank = 0;
  while (rank < most && rest > allowed) rest -= value[rank++];
  return rank;
}

Factors stacked(const Factors& full, const Factors* rest) {
  if (!rest || !rest->inputs.defined()) return full;
  return {at::cat({full.inputs, rest->inputs}),
          at::cat({full.deltas, rest->deltas})};
}

}  // namespace

Factors low_rank(const Factors& given, const LowRankOptions& options,
                 Factors* rest) {
  const at::NoGradGuard no_grad;
  const Factors full = stacked(given, rest);
  const std::int64_t n = full.inputs.size(0);
  if (n == 0) return full;
  // With more rows than columns its null space has to be exact.
  const auto square = [](const at::Tensor& x) {
    if (2 * x.size(0) < x.size(1)) return x.mm(x.t()).to(at::kDouble);
    const at::Tensor exact = x.to(at::kDouble);
    return exact.mm(exact.t());
  };
  const Rounding rounding = rounding_of(full.inputs.scalar_type());
  const at::Tensor inputs = square(full.inputs);
  // Not zero, for inputs that are.
  add_to_diagonal(
      inputs,
      rounding.diagonal * trace_of(inputs) / static_cast<double>(n) + 1e-300);
  const auto [l, info] = at::linalg_cholesky_ex(inputs);
  const at::Tensor m = l.t().mm(square(full.deltas)).mm(l).contiguous();
  // Numbers that are none reach everyone, as without low rank.
  if (info.item<int>() != 0 || !std::isfinite(trace_of(m))) {
    if (rest) *rest = {};
    return given;
  }
  const bool needs_all = rest || options.tolerance > 0;
  const Spectrum found = needs_all ? all_of(m) : largest_of(m, options.rank);
  const std::int64_t all = count_above(found.values, rounding.tiny);
  const std::int64_t rank = rank_for(found.values, options, all);
  const std::int64_t feedback =
      rest ? std::min<std::int64_t>(options.feedback_rows, all - rank) : 0;
  const at::Tensor v = found.vectors.narrow(1, 0, rank + feedback);
  const auto type = full.inputs.scalar_type();
  const at::Tensor left = l.mm(v).to(type).t().mm(full.deltas);
  const at::Tensor right = at::linalg_solve_triangular(l.t(), v, /*upper=*/true)
                               .to(type)
                               .t()
                               .mm(full.inputs);
  if (rest)
    *rest = {right.narrow(0, rank, feedback).clone(),
             left.narrow(0, rank, feedback).clone()};
  return {right.narrow(0, 0, rank), left.narrow(0, 0, rank)};
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
