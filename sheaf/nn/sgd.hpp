#pragma once
// torch::optim::SGD with a fused step: on a GPU it launches a few kernels for
// all parameters instead of a few per parameter. Results, state and options are
// those of torch::optim::SGD.

#include <torch/optim/sgd.h>

namespace sheaf::nn {

class Sgd final : public torch::optim::SGD {
 public:
  using SGD::SGD;

  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  // Whether step_together() applies: dense gradients on a single GPU, and all
  // momentum buffers exist.
  bool can_step_together(torch::optim::OptimizerParamGroup& group);
  void step_together(torch::optim::OptimizerParamGroup& group);
  at::Tensor momentum_of(const at::Tensor& parameter);
};

}  // namespace sheaf::nn
