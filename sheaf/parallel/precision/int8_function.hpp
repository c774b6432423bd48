#pragma once
// Common parts of the autograd functions of int8 layers.

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace sheaf::parallel::int8 {

// The sequence number of the next autograd node; -1 if autograd is off.
inline std::int64_t next_gradient_node() {
  return at::GradMode::is_enabled()
             ? static_cast<std::int64_t>(at::sequence_number::peek())
             : -1;
}

// libtorch's type or std::optional, depending on the libtorch version.
using OptionalTensor =
    decltype(std::declval<c10::IValue&>().toOptional<at::Tensor>());

// Undefined tensors cannot be passed to autograd functions.
inline OptionalTensor given(const at::Tensor& bias) {
  return bias.defined() ? OptionalTensor(bias) : OptionalTensor();
}

inline at::Tensor bias_of(torch::autograd::AutogradContext* context,
                          const OptionalTensor& bias) {
  context->saved_data["has_bias"] = bias.has_value();
  return bias ? bias->contiguous() : at::Tensor();
}

inline bool needs_bias(torch::autograd::AutogradContext* context) {
  return context->saved_data["has_bias"].toBool() &&
         context->needs_input_grad(2);
}

}  // namespace sheaf::parallel::int8
