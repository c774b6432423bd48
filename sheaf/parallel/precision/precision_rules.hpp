#pragma once
// How a precision plan applies to each of libtorch's operators.

#include <ATen/core/dispatch/Dispatcher.h>

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

}  // namespace sheaf::parallel
