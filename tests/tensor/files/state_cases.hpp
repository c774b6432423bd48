#pragma once
// A network and tensors whose state is saved and loaded.

#include <torch/torch.h>

#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor {

inline torch::nn::Sequential small_network() {
  return torch::nn::Sequential(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 2, 3).bias(false)),
      torch::nn::BatchNorm2d(2), torch::nn::ReLU(), torch::nn::Linear(3, 2));
}

// One tensor of each type, and tensors with special strides or shared memory.
inline StateDict various_tensors() {
  StateDict state;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    state.emplace_back(std::string(name_of(dtype)),
                       at::arange(6).view({2, 3}).to(scalar_type_of(dtype)));
  }
  const auto base = at::arange(24, at::kFloat).view({4, 6});
  state.emplace_back("scalar", at::scalar_tensor(-1.5));
  state.emplace_back("empty", at::zeros({0, 3}));
  state.emplace_back("transposed", at::arange(6.).view({2, 3}).t());
  state.emplace_back("sliced", at::arange(20.).slice(0, 1, 20, 3));
  state.emplace_back("expanded", at::ones({1, 3}).expand({4, 3}));
  state.emplace_back("whole", base);
  state.emplace_back("row", base[2]);
  state.emplace_back("column", base.select(1, 5));
  return state;
}

}  // namespace sheaf::tensor
