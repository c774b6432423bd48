#include "sheaf/parallel/gradient_hooks.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <memory>

namespace sheaf::parallel {

using torch::autograd::variable_list;

GradientHooks::GradientHooks(const std::vector<at::Tensor>& parameters,
                             std::function<void(std::size_t)> on_gradient) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Hook hook;
    hook.accumulator = torch::autograd::impl::grad_accumulator(parameters[i]);
    hook.key = hook.accumulator->add_post_hook(
        std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [=](const variable_list& outputs, const variable_list&) {
              on_gradient(i);
              return outputs;
            }));
    hooks_.push_back(std::move(hook));
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

void at_end_of_backward(std::function<void()> action) {
  torch::autograd::Engine::get_default_engine().queue_callback(
      std::move(action));
}

}  // namespace sheaf::parallel
