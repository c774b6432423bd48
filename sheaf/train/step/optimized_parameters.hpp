#pragma once
// The parameters of a network and the optimizer that updates them.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/train/config/config.hpp"
#include "sheaf/train/setup/optimizer.hpp"

namespace sheaf::train {

class OptimizedParameters {
 public:
  // Throws UsageError if the module has no parameters.
  OptimizedParameters(const RunConfig& config, torch::nn::Module& module);

  const NamedTensors& named() const { return parameters_; }  // each tensor once
  std::vector<torch::Tensor> tensors() const;
  std::vector<torch::Tensor> gradients() const;  // those that are defined
  // The first parameter with a non-finite gradient; empty if there is none.
  std::string find_non_finite_gradient() const;

  // From now on only these parameters are trained; an empty list: all.
  void train_only(const std::vector<torch::Tensor>& parameters);
  // Adds a zero that depends on the parameters that are not trained, so that
  // the exchange gets all of them.
  torch::Tensor with_resting(const torch::Tensor& loss,
                             const torch::TensorOptions& options) const;
  // Parameters without gradient are not changed, even by weight decay and
  // momentum.
  void forget_resting_gradients();

  // A zero loss that depends on all parameters, for a rank without examples.
  torch::Tensor zero_loss(const torch::TensorOptions& options) const;

  void step(double learning_rate);

  // The optimizer's buffers; see optimizer_state().
  NamedTensors state() const;
  void load_state(const NamedTensors& state);

 private:
  NamedTensors parameters_;
  std::vector<torch::Tensor> resting_;  // not trained
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::string scope_;  // in traces
};

}  // namespace sheaf::train
