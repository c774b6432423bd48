#pragma once
// torch::optim::SGD with a fused step: on a GPU it launches a few kernels for
// all parameters instead of a few per parameter. Results, state and options are
// those of torch::optim::SGD.

#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>

#include <string>
#include <type_traits>

#include "sheaf/base/error.hpp"

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

// The key of a parameter in Optimizer::state(): its address, which old versions
// of libtorch store as text.
using OptimizerKey = std::decay_t<
    decltype(std::declval<const torch::optim::Optimizer&>().state())>::key_type;

template <class Key = OptimizerKey>
Key optimizer_key(const at::Tensor& parameter) {
  auto* const address = parameter.unsafeGetTensorImpl();
  if constexpr (std::is_same_v<Key, std::string>)
    return concat(address);
  else
    return address;
}

}  // namespace sheaf::nn
