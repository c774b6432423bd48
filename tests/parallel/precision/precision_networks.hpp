#pragma once
// Small networks to be run under a plan, and the expected computation, written
// with casts.

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "sheaf/parallel/precision/precision.hpp"

namespace sheaf::parallel::test {

using plan::Precision;
using plan::PrecisionPlan;

inline constexpr auto kLow = at::kBFloat16;
inline constexpr auto kWide = at::kFloat;

inline PrecisionPlan all_in(Precision precision) { return {{}, precision}; }

inline at::Tensor low(const at::Tensor& tensor) { return tensor.to(kLow); }

// A layer in bf16, with explicit casts.
inline at::Tensor low_linear(const torch::nn::Linear& layer,
                             const at::Tensor& x) {
  return torch::nn::functional::linear(low(x), low(layer->weight),
                                       low(layer->bias));
}

// In old versions of libtorch, a linear layer on more than two axes is a
// product followed by an addition, which runs in the type of its arguments.
inline at::Tensor low_product(torch::nn::Linear& layer, const at::Tensor& x) {
  const bool is_sum = layer(x).grad_fn()->name() == "AddBackward0";
  if (!is_sum) return low_linear(layer, x);
  at::Tensor y = torch::matmul(low(x), low(layer->weight.t()));
  y += layer->bias;
  return y;
}

struct PlannedNetImpl : torch::nn::Module {
  PlannedNetImpl() {
    conv1 = register_module(
        "conv1",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    conv2 = register_module(
        "conv2", torch::nn::Conv2d(
                     torch::nn::Conv2dOptions(8, 6, 3).stride(2).bias(false)));
    last = register_module("last", torch::nn::Linear(6 * 3 * 3, 5));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = torch::relu(norm(conv1(x)));
    return last(torch::relu(conv2(y)).flatten(1));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(PlannedNet);

// Attention: two products of activations with a softmax in between, and
// LayerNorm.
struct AttentionImpl : torch::nn::Module {
  AttentionImpl() {
    query = register_module("query", torch::nn::Linear(12, 12));
    key = register_module("key", torch::nn::Linear(12, 12));
    value = register_module("value", torch::nn::Linear(12, 12));
    norm = register_module("norm",
                           torch::nn::LayerNorm(std::vector<std::int64_t>{12}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto scores = torch::matmul(query(x), key(x).transpose(1, 2));
    return norm(torch::matmul(torch::softmax(scores, -1), value(x)) + x);
  }
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Attention);

// The result of a pass: the output, followed by the gradients of the
// parameters.
using Tensors = std::vector<at::Tensor>;

template <class Net>
Tensors results_of(Net& net, const std::function<at::Tensor()>& forward) {
  net->zero_grad();
  const at::Tensor output = forward();
  output.to(at::kFloat).square().sum().backward();
  Tensors results{output.detach()};
  for (const at::Tensor& parameter : net->parameters())
    results.push_back(parameter.grad().clone());
  return results;
}

template <class Net>
Tensors results_under(Net& net, const PrecisionPlan& plan, const at::Tensor& x,
                      const MixedPrecisionOptions& options = {}) {
  MixedPrecision precision(*net, plan, options);
  return results_of(net, [&] {
    const auto scope = precision.forward_scope();
    return net->forward(x);
  });
}

inline bool has_same_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].scalar_type() != b[i].scalar_type() || !a[i].equal(b[i]))
      return false;
  return true;
}

}  // namespace sheaf::parallel::test
