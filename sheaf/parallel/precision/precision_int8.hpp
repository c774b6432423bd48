#pragma once
// Layers by the integer matrix product, for CUDA.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <string>

#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/parallel/precision/precision_rules.hpp"

namespace sheaf::parallel {

// Empty where there is all that it needs.
std::string why_no_int8(const c10::Device& device);

// Whether this product, whose weight is the argument `weight`, can be done.
bool can_int8(const OperatorRule& rule, const c10::IValue* arguments,
              std::size_t weight);

// Its arguments, in f16, are on the stack, and make room for the result, in
// f16.
void multiply_int8(const c10::OperatorHandle& op, const OperatorRule& rule,
                   const MixedPrecisionOptions& options,
                   torch::jit::Stack& stack);

}  // namespace sheaf::parallel
