#pragma once
// Linear layers and convolutions that use the integer matrix product.
//
// Both factors are converted to int8 (cast_kernels.hpp): the activation with
// one scale, the weight with one scale or one per output. Their product is
// exact in int32 and is converted to f16. Activation and weight are saved in
// f16, and backward() computes in f16.

#include <torch/types.h>

#include <array>

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

}  // namespace sheaf::parallel
