#pragma once
// Whether numbers are finite: neither infinite nor NaN.

#include <torch/types.h>

#include <vector>

namespace sheaf::train {

// Of all elements; true for tensors that are undefined or hold no
// floating-point numbers. Of a sparse tensor its values count.
bool is_finite(const at::Tensor& tensor);

// The same for many, with few kernels on a GPU.
bool are_finite(const std::vector<at::Tensor>& tensors);

}  // namespace sheaf::train
