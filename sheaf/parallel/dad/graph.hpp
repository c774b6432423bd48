#pragma once
// Questions about the graph that forward() has left for backward().

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sheaf::parallel {

using NodePointer = std::shared_ptr<torch::autograd::Node>;

// How often backward() from the outputs comes to each node.
std::unordered_map<const torch::autograd::Node*, std::int64_t> count_arrivals(
    const std::vector<at::Tensor*>& outputs);

// Functions of each element whose derivative follows from their value.
enum class Activation : std::int64_t { kIdentity, kRelu, kTanh, kSigmoid };
std::optional<Activation> activation_of(const torch::autograd::Node& node);
// f'(x) for y = f(x), times `delta`.
at::Tensor times_derivative(const at::Tensor& delta, Activation activation,
                            const at::Tensor& y);

// A product of a plain layer, by the nodes of its output and of its input.
struct LayerNodes {
  NodePointer node;
  NodePointer input;
  bool is_plain = true;
};
struct Above {
  std::size_t layer = 0;
  Activation activation = Activation::kIdentity;
};
// The layer whose input is this one's output alone, through one function of
// each element, where nothing else uses that output; for each of the layers.
std::vector<std::optional<Above>> find_above(
    const std::vector<LayerNodes>& layers,
    const std::vector<at::Tensor*>& outputs);

}  // namespace sheaf::parallel
