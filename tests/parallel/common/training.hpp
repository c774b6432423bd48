#pragma once
// Small training runs, on ranks and in a single process, to be compared.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "tests/support/compare.hpp"

namespace sheaf::parallel::test {

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    first = register_module("first", torch::nn::Linear(12, 20));
    second = register_module("second", torch::nn::Linear(20, 16));
    last = register_module("last", torch::nn::Linear(16, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(torch::relu(second(torch::tanh(first(x.flatten(1))))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Mlp);

// Convolutions, with optional batch normalization.
struct ConvNetImpl : torch::nn::Module {
  explicit ConvNetImpl(bool has_norm = false) {
    conv = register_module(
        "conv",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 5, 3).padding(1)));
    if (has_norm) norm = register_module("norm", torch::nn::BatchNorm2d(5));
    last = register_module("last", torch::nn::Linear(5 * 3 * 2, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = conv(x.view({-1, 1, 4, 3}));
    if (norm) y = norm(y);
    y = torch::max_pool2d(torch::relu(y), {2, 1}, {2, 1});
    return last(y.flatten(1));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(ConvNet);

struct Examples {
  at::Tensor data;
  at::Tensor target;
};

// The global batch of a step.
inline Examples examples(int step, std::int64_t count, at::ScalarType type) {
  auto generator = at::detail::createCPUGenerator(1000 + step);
  return {at::randn({count, 12}, generator, at::TensorOptions(type)),
          at::randint(4, {count}, generator, at::TensorOptions(at::kLong))};
}

// Rank r of n gets a contiguous share; sizes differ by at most one.
inline Examples share_of(const Examples& all, int rank, int ranks) {
  const std::int64_t count = all.data.size(0);
  const std::int64_t begin = count * rank / ranks;
  const std::int64_t end = count * (rank + 1) / ranks;
  return {all.data.slice(0, begin, end), all.target.slice(0, begin, end)};
}

// The contribution of these examples to the mean loss of the global batch.
inline at::Tensor part_of_loss(const at::Tensor& output, const Examples& mine,
                               std::int64_t global_count) {
  return torch::nn::functional::cross_entropy(
             output, mine.target,
             torch::nn::functional::CrossEntropyFuncOptions().reduction(
                 torch::kSum)) /
         static_cast<double>(global_count);
}

inline std::vector<at::Tensor> weights_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> list;
  for (const auto& tensor : module.parameters())
    list.push_back(tensor.detach().clone());
  for (const auto& tensor : module.buffers())
    list.push_back(tensor.detach().clone());
  return list;
}

// The largest difference, relative to the largest weight of its tensor.
inline double distance(const std::vector<at::Tensor>& a,
                       const std::vector<at::Tensor>& b) {
  return sheaf::test::largest_difference(a, b, sheaf::test::Scale::kRelative);
}

}  // namespace sheaf::parallel::test
