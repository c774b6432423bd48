#include "plain/average.hpp"

namespace differential {
namespace {

// Above this growth, directions of PowerSGD's P are rounding errors.
constexpr double kMostGrowth = 1e6;

at::Tensor sum_of(const std::vector<at::Tensor>& list) {
  at::Tensor sum = list[0].clone();
  for (std::size_t i = 1; i < list.size(); ++i) sum.add_(list[i]);
  return sum;
}

at::Tensor magnitudes_of(const std::vector<at::Tensor>& list) {
  at::Tensor sum = list[0].to(at::kDouble).abs();
  for (std::size_t i = 1; i < list.size(); ++i)
    sum.add_(list[i].to(at::kDouble).abs());
  return sum;
}

at::Tensor added(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a + b;
}

at::Tensor round_to(at::ScalarType type, const at::Tensor& x) {
  return x.to(at::kFloat).to(type).to(at::kDouble);
}

// Sums over ranks of the values that they send, and of the minimum and maximum
// that they may send if their gradients already differ.
struct Sums {
  at::Tensor value, low, high, magnitudes;
};

Sums sums_of(const Exchanged& given, at::ScalarType type) {
  const at::Tensor by = given.before.defined() ? given.before.to(at::kCPU)
                                               : at::zeros({}, at::kDouble);
  std::vector<at::Tensor> sent, low, high;
  for (const at::Tensor& gradient : given.gradients) {
    const at::Tensor own = gradient.to(at::kCPU, at::kDouble);
    sent.push_back(round_to(type, own));
    low.push_back(round_to(type, own - by));
    high.push_back(round_to(type, own + by));
  }
  return {sum_of(sent), sum_of(low), sum_of(high), magnitudes_of(sent)};
}

// Three roundings, with one percent for second-order terms; `share` is ranks /
// divisor.
at::Tensor join_slack(const at::Tensor& value, at::ScalarType type,
                      double share) {
  const bool is_half = type == at::kHalf;
  const double unit = std::ldexp(1, is_half ? -11 : -8);
  const double least = is_half ? std::ldexp(1, -25) : 0;
  return value.abs() * (3.04 * unit) + least * (2 + share);
}

// The range of a matrix.
struct Basis {
  // Orthonormal; zeros for directions that are rounding errors.
  at::Tensor columns;
  double growth;  // amplification of an error in the matrix
  bool is_whole;  // whether no direction is missing
};

Basis basis_of(const at::Tensor& matrix) {
  const auto svd = at::linalg_svd(matrix, /*full_matrices=*/false);
  const at::Tensor values = std::get<1>(svd);
  const double largest = values.max().item<double>();
  const at::Tensor is_kept = values > largest / kMostGrowth;
  if (!is_kept.any().item<bool>())
    return {at::zeros_like(std::get<0>(svd)), 1, false};
  const double least = values.masked_select(is_kept).min().item<double>();
  return {std::get<0>(svd) * is_kept, largest / least,
          is_kept.all().item<bool>()};
}

}  // namespace

Average::Average(const Case& one) : case_(one) {}

Averaged Average::plain(const Exchanged& given) const {
  const auto& gradients = given.gradients;
  Averaged result{sum_of(gradients) / given.divisor, given.before};
  if (type_of(case_) == at::kFloat)
    result.slack =
        added(result.slack, added(magnitudes_of(gradients), given.magnitudes) *
                                (3.0 * static_cast<double>(gradients.size()) /
                                 given.divisor * std::ldexp(1, -24)));
  return result;
}

// See reference.hpp. Rounding is monotonic: a rounded value lies between the
// rounded ends of its interval.
Averaged Average::rounded(const Exchanged& given, at::ScalarType type) const {
  const double divisor = given.divisor;
  const Sums sums = sums_of(given, type);
  const at::Tensor spread =
      sums.magnitudes * (static_cast<double>(given.gradients.size()) *
                         std::ldexp(1, -23) / divisor);
  const at::Tensor value = round_to(type, sums.value / divisor);
  at::Tensor slack =
      at::maximum(round_to(type, sums.high / divisor + spread) - value,
                  value - round_to(type, sums.low / divisor - spread));
  if (given.divisor < case_.ranks())
    slack = slack + join_slack(value, type, case_.ranks() / divisor);
  // Non-finite values are not compared by distance.
  const at::Tensor& like = given.parameter;
  return {value.to(like.device(), like.scalar_type()),
          slack.nan_to_num(0, 0, 0).to(like.device())};
}

PowerMemory& Average::memory_of(const Exchanged& given) {
  PowerMemory& memory = memories_[{given.model, given.number}];
  if (memory.q.defined()) return memory;
  const std::int64_t n = given.parameter.size(0);
  const std::int64_t m = given.parameter.numel() / n;
  auto generator = at::detail::createCPUGenerator(given.number);
  // The documented start: f32 numbers, whatever the type of the gradients.
  memory.q = at::randn({m, case_.setting.get("power_rank", 1)}, generator,
                       at::TensorOptions(at::kFloat))
                 .to(at::kDouble);
  memory.errors.assign(given.gradients.size(),
                       torch::zeros({n, m}, at::kDouble));
  return memory;
}

// As in Vogels, Karimireddy, Jaggi, "PowerSGD", 2019: the average is projected
// onto the range of P = M Q, which has any orthonormal basis. The paper does
// not define the start of Q; here it comes from a generator with the
// parameter's number as seed.
Averaged Average::power(const Exchanged& given) {
  PowerMemory& memory = memory_of(given);
  const std::int64_t n = given.parameter.size(0);
  std::vector<at::Tensor> matrices;
  for (std::size_t i = 0; i < given.gradients.size(); ++i)
    matrices.push_back(given.gradients[i].cpu().reshape({n, -1}) +
                       memory.errors[i]);
  const at::Tensor mean = sum_of(matrices) / given.divisor;
  const auto result = [&](const at::Tensor& value) {
    return value.view(given.parameter.sizes()).to(given.parameter.device());
  };
  if (!mean.isfinite().all().item<bool>())  // no part of it is kept
    return {result(mean), {}};
  const Basis basis = basis_of(mean.mm(memory.q));
  memory.q = mean.t().mm(basis.columns);
  const at::Tensor value = basis.columns.mm(memory.q.t());
  for (std::size_t i = 0; i < given.gradients.size(); ++i)
    memory.errors[i] = matrices[i] - value;
  const double largest = magnitudes_of(matrices).max().item<double>();
  // A missing direction may be replaced by any other. It adds at most the
  // remainder of the projection, which is zero if M has no other direction.
  const double rest = basis.is_whole ? 0 : (mean - value).norm().item<double>();
  memory.growth = std::max(memory.growth, basis.growth);
  memory.is_open = memory.is_open || rest > largest * 1e-7;
  return {result(value.clone()),
          added(torch::full({}, rest + largest * memory.growth * 1e-13,
                            given.parameter.options().dtype(at::kDouble)),
                given.before),
          memory.is_open};
}

bool Average::is_compressed(const at::Tensor& parameter) const {
  if (parameter.dim() < 2) return false;
  const std::int64_t n = parameter.size(0), m = parameter.numel() / n;
  return case_.setting.get("power_rank", 1) * (n + m) * 2 < n * m;
}

Averaged Average::average(Exchanged given) {
  for (at::Tensor& one : given.gradients)
    one = !one.defined()    ? at::zeros_like(given.parameter).detach()
          : one.is_sparse() ? one.to_dense()
                            : one.detach();
  // A single rank exchanges nothing.
  switch (case_.ranks() == 1 ? 0 : case_.setting.get("exchange")) {
    case 1:
      return rounded(given, at::kHalf);
    case 2:
      return rounded(given, at::kBFloat16);
    case 3:
      if (exchanges_[given.model] > case_.setting.get("power_start") &&
          is_compressed(given.parameter))
        return power(given);
      return plain(given);
    default:
      return plain(given);
  }
}

}  // namespace differential
