#pragma once
// Analyzes the graph that forward() has recorded for backward().

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sheaf::parallel {

using NodePointer = std::shared_ptr<torch::autograd::Node>;

// The number of times that backward() from the outputs reaches each node.
std::unordered_map<const torch::autograd::Node*, std::int64_t> count_arrivals(
    const std::vector<at::Tensor*>& outputs);

// Element-wise functions whose derivative can be computed from their value.
enum class Activation : std::int64_t { kIdentity, kRelu, kTanh, kSigmoid };
std::optional<Activation> activation_of(const torch::autograd::Node& node);
// Returns `delta` times f'(x), for y = f(x).
at::Tensor times_derivative(const at::Tensor& delta, Activation activation,
                            const at::Tensor& y);

// A product of a layer, given by the nodes of its output and its input.
struct LayerNodes {
  NodePointer node;
  NodePointer input;
  bool is_plain = true;
};
struct Above {
  std::size_t layer = 0;
  Activation activation = Activation::kIdentity;
};
// For each layer, the layer above it: the only user of its output, directly or
// through one element-wise function.
std::vector<std::optional<Above>> find_above(
    const std::vector<LayerNodes>& layers,
    const std::vector<at::Tensor*>& outputs);

}  // namespace sheaf::parallel
