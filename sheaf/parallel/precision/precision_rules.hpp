#pragma once
// How a precision plan applies to each of libtorch's operators, and casts of
// their arguments.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace sheaf::parallel {

enum class OperatorKind {
  kPlain,    // runs in the types of its arguments
  kProduct,  // a layer
  kExact,    // runs in f32
  kOpen,     // composed of other operators, which are handled separately
};

struct OperatorRule {
  OperatorKind kind = OperatorKind::kPlain;
  std::string label;  // "conv2d"
  // For products: indices of the factors among the arguments.
  std::vector<std::size_t> factors;
  // Indices of added arguments, such as the bias.
  std::vector<std::size_t> added;
  bool is_exact_on_cpu = false;  // not supported in bf16 by libtorch 1.13
};

// The reference stays valid until the thread ends.
const OperatorRule& rule_of(const c10::OperatorHandle& op);

// Whether it is the label of a product, such as "conv2d" or "matmul".
bool is_product(const std::string& label);

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
