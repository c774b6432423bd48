#include "sheaf/parallel/low_rank.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace sheaf::parallel {
namespace {

// Eigenvalues below this part of the largest are rounding.
constexpr double kTiny = 1e-14;

struct Spectrum {
  at::Tensor values;   // descending
  at::Tensor vectors;  // columns
};

Spectrum eigen(const at::Tensor& symmetric) {
  const auto [values, vectors] = at::linalg_eigh(symmetric, "L");
  return {values.flip(0), vectors.flip(1)};
}

std::int64_t count_above(const at::Tensor& descending, double part) {
  if (descending.numel() == 0) return 0;
  const double limit = descending[0].item<double>() * part;
  return limit > 0 ? (descending > limit).sum().item<std::int64_t>() : 0;
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

// With A = U S W^T: D^T A = (D^T U S) W^T, and the eigenvectors V of
// S U^T D D^T U S turn it into singular vectors.
Factors low_rank(const Factors& given, const LowRankOptions& options,
                 Factors* rest) {
  const at::NoGradGuard no_grad;
  const Factors full = stacked(given, rest);
  const at::Tensor a = full.inputs.to(at::kDouble);
  const at::Tensor d = full.deltas.to(at::kDouble);
  const auto type = full.inputs.scalar_type();
  const Spectrum inputs = eigen(a.mm(a.t()));
  const std::int64_t kept = count_above(inputs.values, kTiny);
  const at::Tensor scale = inputs.values.narrow(0, 0, kept).sqrt();
  const at::Tensor u = inputs.vectors.narrow(1, 0, kept);
  const at::Tensor us = u * scale;
  const Spectrum products = eigen(us.t().mm(d.mm(d.t())).mm(us));
  const std::int64_t all = count_above(products.values, kTiny);
  const std::int64_t rank =
      rank_for(products.values.contiguous(), options, all);
  const std::int64_t feedback =
      rest ? std::min<std::int64_t>(options.feedback_rows, all - rank) : 0;
  const at::Tensor v = products.vectors.narrow(1, 0, rank + feedback);
  const at::Tensor left = (us.mm(v)).t().to(type).mm(full.deltas);
  const at::Tensor right = ((u / scale).mm(v)).t().to(type).mm(full.inputs);
  if (rest)
    *rest = {right.narrow(0, rank, feedback).clone(),
             left.narrow(0, rank, feedback).clone()};
  return {right.narrow(0, 0, rank).contiguous(),
          left.narrow(0, 0, rank).contiguous()};
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
