#pragma once
// Passes any value from an autograd function's forward() to its backward().

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

namespace sheaf::tensor {

template <class T>
struct Kept : torch::CustomClassHolder {
  explicit Kept(T given) : value(std::move(given)) {}
  T value;
};

template <class T>
void keep(torch::autograd::AutogradContext* context, T value) {
  context->saved_data["value"] =
      c10::IValue::make_capsule(c10::make_intrusive<Kept<T>>(std::move(value)));
}

template <class T>
T& kept(torch::autograd::AutogradContext* context) {
  return static_cast<Kept<T>&>(*context->saved_data["value"].toCapsule()).value;
}

}  // namespace sheaf::tensor
