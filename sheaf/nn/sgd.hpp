#pragma once
// torch::optim::SGD, whose step on a GPU takes a few kernels for all
// parameters together rather than a few for each. The same numbers, state and
// options.

#include <torch/optim/sgd.h>

namespace sheaf::nn {

class Sgd final : public torch::optim::SGD {
 public:
  using SGD::SGD;

  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  // Whether step_together() can do it: dense gradients on one GPU, and all
  // momentum buffers there.
  bool can_step_together(torch::optim::OptimizerParamGroup& group);
  void step_together(torch::optim::OptimizerParamGroup& group);
  at::Tensor momentum_of(const at::Tensor& parameter);
};

}  // namespace sheaf::nn
