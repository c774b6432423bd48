#pragma once
// A convolution that computes its interior while halos are exchanged. In
// backward, ranks fetch the gradients of outputs that depend on their inputs,
// and compute the gradient of the weights meanwhile; no sums of gradients need
// to be sent.

#include <torch/types.h>

#include "sheaf/spatial/ops/conv_regions.hpp"

namespace sheaf::spatial {

// Whether overlap is possible: the image axes are the grid's axes, in order.
bool can_overlap(const ConvolutionTask& task);

at::Tensor overlapped_convolution(const at::Tensor& local,
                                  const at::Tensor& weight,
                                  const at::Tensor& bias,
                                  const ConvolutionTask& task);

}  // namespace sheaf::spatial
