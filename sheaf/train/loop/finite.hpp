#pragma once
// Whether numbers are finite: neither infinite nor NaN.

#include <torch/types.h>

#include <string>
#include <vector>

namespace sheaf::train {

// Of all elements; true for tensors that are undefined or hold no
// floating-point numbers. Of a sparse tensor its values count, of one that is
// split over ranks this rank's part.
bool is_finite(const at::Tensor& tensor);

// The same for many, with few kernels on a GPU.
bool are_finite(const std::vector<at::Tensor>& tensors);

// The first value of a step that a rank has found not to be finite.
struct NonFiniteCause {
  std::string text;  // "the input images"; empty: it has found none
  // Where in the step: values come from those of lower places, on any rank, so
  // the lowest place of all ranks is the cause.
  int place = 0;
};

}  // namespace sheaf::train
