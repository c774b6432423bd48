#pragma once
// A parameter whose gradient is exchanged between ranks.

#include <torch/types.h>

#include <string>

namespace sheaf::parallel {

struct TrainedParameter {
  std::string name;
  at::Tensor tensor;
  bool is_sparse = false;  // its gradients are sparse tensors
};

}  // namespace sheaf::parallel
