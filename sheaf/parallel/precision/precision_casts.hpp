#pragma once
// Arguments of operators in other types.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

namespace sheaf::parallel {

// f32, bf16 or f16: what a plan may cast.
bool is_castable(const at::Tensor& tensor);

// A tensor argument in another type, if it is castable; else as it is.
void cast_argument(c10::IValue& argument, at::ScalarType type);

// All of the operator's arguments that are bf16 or f16, lists too, in f32.
void cast_low_to_f32(c10::ArrayRef<c10::IValue> arguments);
bool has_low(c10::ArrayRef<c10::IValue> arguments);

// Calls it with the arguments as they are; where libtorch has no kernel for
// bf16 or f16, in f32. All of the stack's last values are its arguments.
void call_with_what_is_there(const c10::OperatorHandle& op,
                             torch::jit::Stack& stack);

}  // namespace sheaf::parallel
