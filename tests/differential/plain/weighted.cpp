#include "plain/weighted.hpp"

#include <set>

namespace differential {
namespace {

// Returns the same values; the gradient is multiplied.
struct Weighted : torch::autograd::Function<Weighted> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, double weight) {
    context->saved_data["weight"] = weight;
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    return {gradients[0] * context->saved_data["weight"].toDouble(), {}};
  }
};

bool counts_by_rows(const Case& one) {
  static const std::set<std::string> kNames{"dad", "edad", "rank-dad", "auto"};
  return kNames.count(one.setting.kind) > 0 &&
         !one.setting.has("average_ranks");
}

}  // namespace

std::vector<double> weights_of_units(const Case& one, const Item& step) {
  const int units = unit_count(one);
  const auto total = static_cast<double>(rows_of_all(one, step));
  std::vector<double> weights(static_cast<std::size_t>(units), 1);
  if (!counts_by_rows(one) || total == 0) return weights;
  for (int unit = 0; unit < units; ++unit)
    weights[static_cast<std::size_t>(unit)] =
        static_cast<double>(rows_of(step, unit)) * units / total;
  return weights;
}

Session::Outputs weighted(Session::Outputs outputs, double weight) {
  if (weight == 1 || !at::GradMode::is_enabled()) return outputs;
  for (at::Tensor& output : outputs)
    if (output.requires_grad()) output = Weighted::apply(output, weight);
  return outputs;
}

}  // namespace differential
