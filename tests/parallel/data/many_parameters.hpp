#pragma once
// Small modules: one of which each forward() uses some parameters only, and one
// with a buffer.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace sheaf::parallel::test {

// y = sum over the used layers of x * weight.
struct ManyImpl : torch::nn::Module {
  explicit ManyImpl(int count) {
    for (int i = 0; i < count; ++i)
      weights.push_back(register_parameter(
          "w" + std::to_string(i), torch::full({3}, i + 1.0, torch::kDouble)));
  }
  at::Tensor forward(const std::vector<int>& used, double x) {
    at::Tensor sum = torch::zeros({}, torch::kDouble);
    for (const int i : used)
      sum = sum + (weights[static_cast<std::size_t>(i)] * x).sum();
    return sum;
  }
  at::Tensor gradient(int i) const {
    return weights[static_cast<std::size_t>(i)].grad();
  }
  std::vector<at::Tensor> weights;
};
TORCH_MODULE(Many);

// A module with a buffer, which forward() does not change.
struct CountedImpl : torch::nn::Module {
  CountedImpl() {
    weight = register_parameter("weight", torch::ones({1}));
    count = register_buffer("count", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) { return weight * x; }
  at::Tensor weight, count;
};

inline void expect_value(const at::Tensor& tensor, double value) {
  ASSERT_TRUE(tensor.defined());
  EXPECT_TRUE(torch::all(tensor == value).item<bool>()) << tensor << value;
}

}  // namespace sheaf::parallel::test
