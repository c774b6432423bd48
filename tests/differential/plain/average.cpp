#include "plain/average.hpp"

#include <limits>

namespace differential {
namespace {

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

// P of PowerSGD and by how much rounding grows when it is made orthonormal.
std::pair<at::Tensor, double> orthonormal(const at::Tensor& p) {
  const at::Tensor values = at::linalg_svdvals(p);
  const double least = values.min().item<double>();
  const double most = values.max().item<double>();
  return {std::get<0>(at::linalg_qr(p)),
          least > 0 ? most / least : std::numeric_limits<double>::infinity()};
}

}  // namespace

Average::Average(const Case& one) : case_(one) {}

Averaged Average::plain(const std::vector<at::Tensor>& gradients,
                        int divisor) const {
  Averaged result{sum_of(gradients) / divisor, {}};
  if (type_of(case_) == at::kFloat)
    result.slack = magnitudes_of(gradients) *
                   (2.0 * static_cast<double>(gradients.size()) / divisor *
                    std::ldexp(1, -24));
  return result;
}

Averaged Average::rounded(const std::vector<at::Tensor>& gradients, int divisor,
                          at::ScalarType type) const {
  std::vector<at::Tensor> sent;
  for (const at::Tensor& gradient : gradients)
    sent.push_back(gradient.to(type).to(at::kFloat));
  const double unit = std::ldexp(1, type == at::kHalf ? -11 : -8);
  const at::Tensor value = (sum_of(sent) / divisor).to(type);
  const double roundings = static_cast<double>(gradients.size()) + 1;
  // Numbers near 0 have a fixed distance, 2^-24 in f16.
  const double least = type == at::kHalf ? std::ldexp(1, -24) : 0;
  return {
      value.to(gradients[0].scalar_type()),
      magnitudes_of(sent) * (unit * roundings / divisor) + roundings * least};
}

// As in Vogels, Karimireddy, Jaggi, "PowerSGD", 2019. They leave the start of Q
// open; it is drawn from a generator with the number of the parameter as seed.
Averaged Average::power(std::size_t model, std::size_t number,
                        const std::vector<at::Tensor>& gradients, int divisor) {
  const at::Tensor& first = gradients[0];
  const std::int64_t n = first.size(0), m = first.numel() / n;
  const std::int64_t rank = case_.setting.get("power_rank", 1);
  PowerMemory& memory = memories_[{model, number}];
  if (!memory.q.defined()) {
    auto generator = at::detail::createCPUGenerator(number);
    // The documented start: f32 numbers, whatever the gradients' type.
    memory.q = at::randn({m, rank}, generator, at::TensorOptions(at::kFloat))
                   .to(at::kDouble);
    memory.errors.assign(gradients.size(), torch::zeros({n, m}, at::kDouble));
  }
  std::vector<at::Tensor> matrices;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    matrices.push_back(gradients[i].cpu().reshape({n, m}) + memory.errors[i]);
  const at::Tensor mean = sum_of(matrices) / divisor;
  if (!mean.isfinite().all().item<bool>())  // nothing of it is remembered
    return {mean.view(first.sizes()).to(first.device()), {}};
  const auto [p, growth] = orthonormal(mean.mm(memory.q));
  memory.q = mean.t().mm(p);
  const at::Tensor value = p.mm(memory.q.t());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    memory.errors[i] = matrices[i] - value;
  const double largest = magnitudes_of(matrices).max().item<double>();
  return {value.view(first.sizes()).clone().to(first.device()),
          torch::full({}, largest * std::max(1e-9, growth * 1e-13))};
}

bool Average::is_compressed(const at::Tensor& parameter) const {
  if (parameter.dim() < 2) return false;
  const std::int64_t n = parameter.size(0), m = parameter.numel() / n;
  return case_.setting.get("power_rank", 1) * (n + m) * 2 < n * m;
}

Averaged Average::average(std::size_t model, std::size_t number,
                          const at::Tensor& parameter,
                          const std::vector<at::Tensor>& gradients,
                          int divisor) {
  std::vector<at::Tensor> list;
  for (const at::Tensor& one : gradients)
    list.push_back(!one.defined()    ? at::zeros_like(parameter).detach()
                   : one.is_sparse() ? one.to_dense()
                                     : one.detach());
  // A rank alone exchanges nothing.
  switch (case_.ranks() == 1 ? 0 : case_.setting.get("exchange")) {
    case 1:
      return rounded(list, divisor, at::kHalf);
    case 2:
      return rounded(list, divisor, at::kBFloat16);
    case 3:
      if (exchanges_[model] > case_.setting.get("power_start") &&
          is_compressed(parameter))
        return power(model, number, list, divisor);
      return plain(list, divisor);
    default:
      return plain(list, divisor);
  }
}

}  // namespace differential
