#pragma once
// Activation checkpointing as users write it: forward() keeps the input alone,
// backward() computes the function again and calls backward() within itself.

#include <torch/torch.h>

#include <functional>

namespace differential {

at::Tensor checkpoint(const at::Tensor& x,
                      std::function<at::Tensor(const at::Tensor&)> function);

}  // namespace differential
