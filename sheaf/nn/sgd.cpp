#include "sheaf/nn/sgd.hpp"

#include <algorithm>

namespace sheaf::nn {
namespace {

using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;
using torch::optim::SGDParamState;

std::vector<at::Tensor> with_gradient(OptimizerParamGroup& group) {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : group.params())
    if (parameter.grad().defined()) parameters.push_back(parameter);
  return parameters;
}

}  // namespace

at::Tensor Sgd::momentum_of(const at::Tensor& parameter) {
  const auto found = state().find(optimizer_key(parameter));
  if (found == state().end()) return {};
  return static_cast<SGDParamState&>(*found->second).momentum_buffer();
}

bool Sgd::can_step_together(OptimizerParamGroup& group) {
  const auto parameters = with_gradient(group);
  const bool has_momentum =
      static_cast<SGDOptions&>(group.options()).momentum() != 0;
  return !parameters.empty() &&
         std::all_of(
             parameters.begin(), parameters.end(),
             [&](const at::Tensor& parameter) {
               return parameter.is_cuda() &&
                      parameter.device() == parameters[0].device() &&
                      !parameter.grad().is_sparse() &&
                      (!has_momentum || momentum_of(parameter).defined());
             });
}

void Sgd::step_together(OptimizerParamGroup& group) {
  const auto& options = static_cast<SGDOptions&>(group.options());
  const auto parameters = with_gradient(group);
  std::vector<at::Tensor> steps;
  for (const at::Tensor& parameter : parameters)
    steps.push_back(parameter.grad());
  if (options.weight_decay() != 0)
    steps = at::_foreach_add(steps, parameters, options.weight_decay());
  if (options.momentum() != 0) {
    std::vector<at::Tensor> momenta;
    for (const at::Tensor& parameter : parameters)
      momenta.push_back(momentum_of(parameter));
    at::_foreach_mul_(momenta, options.momentum());
    at::_foreach_add_(momenta, steps, 1 - options.dampening());
    steps = options.nesterov()
                ? at::_foreach_add(steps, momenta, options.momentum())
                : momenta;
  }
  at::_foreach_add_(parameters, steps, -options.lr());
}

at::Tensor Sgd::step(LossClosure closure) {
  // Called first: it may create gradients of further parameters, which have no
  // momentum yet.
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  auto& groups = param_groups();
  // SGD::step() creates the momentum buffers in the first step.
  if (!std::all_of(groups.begin(), groups.end(),
                   [this](auto& group) { return can_step_together(group); })) {
    SGD::step();
    return loss;
  }
  const at::NoGradGuard no_grad;
  for (auto& group : groups) step_together(group);
  return loss;
}

}  // namespace sheaf::nn
