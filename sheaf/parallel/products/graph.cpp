#include "sheaf/parallel/products/graph.hpp"

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

std::vector<std::optional<Above>> find_above(
    const std::vector<LayerNodes>& layers,
    const std::vector<at::Tensor*>& outputs) {
  auto arrivals = count_arrivals(outputs);
  std::unordered_map<const Node*, std::size_t> by_node;
  for (std::size_t i = 0; i < layers.size(); ++i)
    by_node[layers[i].node.get()] = i;
  std::vector<std::optional<Above>> above(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Node* node = layers[i].input.get();
    if (!node || !layers[i].is_plain) continue;
    const auto activation = activation_of(*node);
    if (activation && arrivals[node] == 1)
      node = node->next_edge(0).function.get();
    const auto below = by_node.find(node);
    if (below != by_node.end() && arrivals[node] == 1 &&
        layers[below->second].is_plain)
      above[below->second] =
          Above{i, activation.value_or(Activation::kIdentity)};
  }
  return above;
}

// Uses separate operations, each of which rounds once. A fused operation rounds
// differently with some instruction sets, and ranks must not differ.
at::Tensor times_derivative(const at::Tensor& delta, Activation activation,
                            const at::Tensor& y) {
  switch (activation) {
    case Activation::kIdentity:
      return delta;
    case Activation::kRelu:
      return at::threshold_backward(delta, y, 0);
    case Activation::kTanh:
      return delta * (1 - y * y);
    case Activation::kSigmoid:
      return delta * ((1 - y) * y);
  }
  return delta;
}

}  // namespace sheaf::parallel
