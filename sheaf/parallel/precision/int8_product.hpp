#pragma once
// Linear layers and convolutions that use the integer matrix product, and the
// operators that a plan can replace by them. CUDA only.
//
// Both factors are converted to int8 (cast_kernels.hpp): the activation with
// one scale, the weight with one scale or one per output. Their product is
// exact in int32 and is converted to f16. Activation and weight are saved in
// f16, and backward() computes in f16.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>
#include <torch/types.h>

#include <array>
#include <string>

#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/parallel/precision/precision_rules.hpp"

namespace sheaf::parallel {

// Whether libtorch supports the product of int8 matrices.
bool has_integer_product();

// x: any axes, the last one of size `in`; weight: out x in; bias: `out`
// elements, or undefined. All in f16 on one CUDA device.
at::Tensor int8_linear(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, bool scales_by_channel);

struct ConvGeometry {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};
  std::array<std::int64_t, 2> dilation = {1, 1};
};

// The number of elements that the convolution of one image unfolds to.
std::int64_t unfolded_elements(const at::Tensor& x, const at::Tensor& weight,
                               const ConvGeometry& geometry);

// x: images x channels x height x width, with any strides. The result is
// channels-last if x is.
at::Tensor int8_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, const ConvGeometry& geometry,
                       bool scales_by_channel);

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
