#pragma once
// A convolution that computes what needs no halo while halos travel. Backward,
// ranks fetch the gradients of outputs that their inputs have gone into, and
// compute the weights' gradient meanwhile; then no sums have to be sent.

#include <torch/types.h>

#include "sheaf/spatial/ops/conv_regions.hpp"

namespace sheaf::spatial {

// Whether it can be done so: all axes of the image are the grid's, in order.
bool can_overlap(const ConvolutionTask& task);

at::Tensor overlapped_convolution(const at::Tensor& local,
                                  const at::Tensor& weight,
                                  const at::Tensor& bias,
                                  const ConvolutionTask& task);

}  // namespace sheaf::spatial
