#pragma once
// Layers that use the integer matrix product on CUDA.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <string>

#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/parallel/precision/precision_rules.hpp"

namespace sheaf::parallel {

// The reason why int8 is not available; empty if it is.
std::string why_no_int8(const c10::Device& device);

// Whether this product, whose weight is argument number `weight`, is supported.
bool can_int8(const OperatorRule& rule, const c10::IValue* arguments,
              std::size_t weight);

// Replaces the f16 arguments on the stack with the f16 result.
void multiply_int8(const c10::OperatorHandle& op, const OperatorRule& rule,
                   const MixedPrecisionOptions& options,
                   torch::jit::Stack& stack);

}  // namespace sheaf::parallel
