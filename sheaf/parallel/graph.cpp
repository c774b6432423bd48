#include "sheaf/parallel/graph.hpp"

#include <torch/torch.h>

namespace sheaf::parallel {

using torch::autograd::Node;

std::unordered_map<const Node*, std::int64_t> count_arrivals(
    const std::vector<at::Tensor*>& outputs) {
  std::unordered_map<const Node*, std::int64_t> counts;
  std::vector<const Node*> open;
  const auto arrive = [&](const Node* node) {
    if (node && ++counts[node] == 1) open.push_back(node);
  };
  for (const at::Tensor* output : outputs)
    if (output->defined()) arrive(output->grad_fn().get());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) arrive(edge.function.get());
  }
  return counts;
}

std::optional<Activation> activation_of(const Node& node) {
  const std::string name = node.name();
  if (name == "ReluBackward0") return Activation::kRelu;
  if (name == "TanhBackward0") return Activation::kTanh;
  if (name == "SigmoidBackward0") return Activation::kSigmoid;
  return {};
}

at::Tensor times_derivative(const at::Tensor& delta, Activation activation,
                            const at::Tensor& y) {
  switch (activation) {
    case Activation::kIdentity:
      return delta;
    case Activation::kRelu:
      return at::threshold_backward(delta, y, 0);
    case Activation::kTanh:
      return at::tanh_backward(delta, y);
    case Activation::kSigmoid:
      return at::sigmoid_backward(delta, y);
  }
  return delta;
}

}  // namespace sheaf::parallel
