#pragma once
// Casts the arguments of operators.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

namespace sheaf::parallel {

// Whether a plan may cast it: f32, bf16 or f16.
bool is_castable(const at::Tensor& tensor);

// Casts a tensor argument to another type if it is castable.
void cast_argument(c10::IValue& argument, at::ScalarType type);

// Casts all bf16 and f16 arguments of the operator to f32, including lists.
void cast_low_to_f32(c10::ArrayRef<c10::IValue> arguments);
bool has_low(c10::ArrayRef<c10::IValue> arguments);

// Calls the operator with its arguments unchanged; in f32 if libtorch has no
// kernel for bf16 or f16. The arguments are the last values of the stack.
void call_with_what_is_there(const c10::OperatorHandle& op,
                             torch::jit::Stack& stack);

}  // namespace sheaf::parallel
