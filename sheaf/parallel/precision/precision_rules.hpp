#pragma once
// What the precision of a plan means for each of libtorch's operators.

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace sheaf::parallel {

enum class OperatorKind {
  kPlain,    // takes what it is given
  kProduct,  // a layer
  kExact,    // computes in f32
  kOpen,     // is made of others, which come one by one
};

struct OperatorRule {
  OperatorKind kind = OperatorKind::kPlain;
  std::string label;                 // "conv2d"
  std::vector<std::size_t> factors;  // of a product: places of its arguments
  std::vector<std::size_t> added;    // bias and the like
  bool is_exact_on_cpu = false;      // libtorch 1.13 cannot do it in bf16
};

// Kept for the life of the process.
const OperatorRule& rule_of(const c10::OperatorHandle& op);

// "conv2d", "matmul" …: whether it is the label of a product.
bool is_product(const std::string& label);

}  // namespace sheaf::parallel
