#include "plain/checkpoint.hpp"

#include <torch/custom_class.h>

namespace differential {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Recompute = std::function<at::Tensor(const at::Tensor&)>;

struct Held : torch::CustomClassHolder {
  explicit Held(Recompute given) : function(std::move(given)) {}
  Recompute function;
};
using HeldPointer = c10::intrusive_ptr<torch::CustomClassHolder>;

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const HeldPointer& held) {
    context->save_for_backward({x});
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    return static_cast<Held&>(*held).function(x);
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const HeldPointer held = context->saved_data["held"].toCapsule();
    const at::Tensor x =
        context->get_saved_variables()[0].detach().set_requires_grad(true);
    const at::AutoGradMode with_gradients(true);
    const at::Tensor y = static_cast<Held&>(*held).function(x);
    torch::autograd::backward({y}, {gradients[0]});
    return {x.grad(), {}};
  }
};

}  // namespace

at::Tensor checkpoint(const at::Tensor& x,
                      std::function<at::Tensor(const at::Tensor&)> function) {
  const HeldPointer held = c10::make_intrusive<Held>(std::move(function));
  // The parameters get gradients only if the input requires one.
  const at::Tensor given =
      x.requires_grad() ? x : x.detach().set_requires_grad(true);
  return Checkpoint::apply(given, held);
}

}  // namespace differential
