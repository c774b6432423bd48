#pragma once
// A linear layer and a convolution by the product of integer matrices.
//
// Both factors become int8 (cast_kernels.hpp): the activation with one scale,
// the weight with one or with one for each output. Their product is exact, in
// int32, and becomes f16 again. Activation and weight are kept in f16, and
// backward() computes in f16.

#include <torch/types.h>

#include <array>

namespace sheaf::parallel {

// Whether libtorch has the product of int8 matrices.
bool has_integer_product();

// x: any axes, the last one in; weight: out x in; bias: of out elements, or
// undefined. All in f16 on one CUDA device.
at::Tensor int8_linear(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, bool scales_by_channel);

struct ConvGeometry {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};
  std::array<std::int64_t, 2> dilation = {1, 1};
};

// Elements that the convolution of one image unfolds to.
std::int64_t unfolded_elements(const at::Tensor& x, const at::Tensor& weight,
                               const ConvGeometry& geometry);

// x: images x channels x height x width, of any strides; the result's channels
// are last in memory where those of x are.
at::Tensor int8_conv2d(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, const ConvGeometry& geometry,
                       bool scales_by_channel);

}  // namespace sheaf::parallel
