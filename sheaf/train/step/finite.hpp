#pragma once
// Checks whether numbers are finite: neither infinite nor NaN.

#include <torch/types.h>

#include <string>
#include <vector>

namespace sheaf::train {

// Whether all elements are finite. True for undefined tensors and for tensors
// without floating-point elements. Checks the values of a sparse tensor, and
// this rank's part of a tensor that is split over ranks.
bool is_finite(const at::Tensor& tensor);

// Checks many tensors, with few kernels on a GPU.
bool are_finite(const std::vector<at::Tensor>& tensors);

// The first non-finite value that a rank found in a step.
struct NonFiniteCause {
  std::string text;  // "the input images"; empty: none found
  // Position in the step. Values depend only on values at lower positions, on
  // any rank, so the lowest position over all ranks is the cause.
  int place = 0;
};

}  // namespace sheaf::train
