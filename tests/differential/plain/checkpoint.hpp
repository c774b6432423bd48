#pragma once
// Activation checkpointing as users write it: forward() saves only the input;
// backward() computes the function again and calls a nested backward().

#include <torch/torch.h>

#include <functional>

namespace differential {

at::Tensor checkpoint(const at::Tensor& x,
                      std::function<at::Tensor(const at::Tensor&)> function);

}  // namespace differential
