#pragma once
// A module together with its forward function.

#include <torch/nn/module.h>

#include <functional>
#include <memory>

namespace sheaf::train {

// A module of any type and a function that calls its forward().
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

}  // namespace sheaf::train
