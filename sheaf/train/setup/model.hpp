#pragma once
// A module and its forward().

#include <torch/nn/module.h>

#include <functional>
#include <memory>

namespace sheaf::train {

// Any module, and how to call it.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

}  // namespace sheaf::train
