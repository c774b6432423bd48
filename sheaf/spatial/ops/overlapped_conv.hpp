#pragma once
// A convolution that computes its interior while halos are exchanged. In
// backward, ranks fetch the gradients of outputs that depend on their inputs,
// and compute the gradient of the weights meanwhile; no sums of gradients need
// to be sent.

#include <torch/types.h>

#include <vector>

#include "sheaf/halo/halo_exchange.hpp"
#include "sheaf/spatial/ops/windows.hpp"

namespace sheaf::spatial {

// A convolution on a tile. Its interior can be computed before the halos
// arrive; the bands at the borders need them.
struct ConvolutionTask {
  Split input;
  std::vector<halo::Window> windows;  // for all axes of the image
  WindowPlan plan;
  std::int64_t groups = 1;

  int axes() const { return static_cast<int>(windows.size()); }
  halo::Box own_inputs() const;
  halo::Box own_outputs() const;
};

// The inputs of some outputs, including padding.
halo::Box reach_of(const ConvolutionTask& task, const halo::Box& outputs);
// This rank's outputs that depend only on its own inputs; empty if these are
// not needed at all.
halo::Box interior_of(const ConvolutionTask& task);
// The outputs whose gradients each rank needs for its inputs.
Needs needs_of_gradient(const ConvolutionTask& task);

// The part of a tensor in `box`. The tensor's axes from 2 on start at the
// corner of `origin`.
at::Tensor part_at(at::Tensor tensor, const halo::Box& box,
                   const halo::Box& origin, int axes);
// The sizes of a tensor over a box.
std::vector<std::int64_t> sizes_over(const halo::Box& box, int axes,
                                     std::int64_t samples,
                                     std::int64_t channels);

// This rank's tile as the input of a convolution with zeros around it: the
// results are correct in the interior, and elsewhere lack only the contribution
// of the halos.
class HomeTile {
 public:
  explicit HomeTile(const ConvolutionTask& task);

  // False if no output depends on the tile.
  bool has_any() const { return has_any_; }
  // The padding that the convolution applies.
  const std::vector<std::int64_t>& padding() const { return padding_; }
  // The input of the convolution, without a copy if padding() is sufficient.
  at::Tensor input(const at::Tensor& tile) const;
  at::Tensor input_adjoint(const at::Tensor& gradient) const;

 private:
  bool has_border() const;

  bool has_any_ = false;
  std::vector<std::int64_t> padding_;
  std::vector<std::int64_t> border_;  // in the order of constant_pad_nd
};

// Outputs outside the interior, and memory for all their inputs.
struct Band {
  halo::Box outputs;
  halo::Box inside;  // the inputs within the image
  at::Tensor inputs;
  at::Tensor part;  // the part of `inputs` within the image; undefined if empty
};
std::vector<Band> bands_of(const ConvolutionTask& task, const at::Tensor& tile);
std::vector<halo::Patch> patches_of(const std::vector<Band>& bands);
// Zeroes this rank's own inputs, so that only the halos remain.
void forget_own(const Band& band, const ConvolutionTask& task);

// Whether overlap is possible: the image axes are the grid's axes, in order.
bool can_overlap(const ConvolutionTask& task);

at::Tensor overlapped_convolution(const at::Tensor& local,
                                  const at::Tensor& weight,
                                  const at::Tensor& bias,
                                  const ConvolutionTask& task);

}  // namespace sheaf::spatial
