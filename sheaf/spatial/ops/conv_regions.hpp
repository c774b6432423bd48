#pragma once
// The regions of a convolution on a tile: what can be computed before halos
// come, and the bands at its borders for which they are needed.

#include <torch/types.h>

#include <vector>

#include "sheaf/halo/halo_exchange.hpp"
#include "sheaf/spatial/ops/windows.hpp"

namespace sheaf::spatial {

struct ConvolutionTask {
  Split input;
  std::vector<halo::Window> windows;  // of all axes of the image
  WindowPlan plan;
  std::int64_t groups = 1;

  int axes() const { return static_cast<int>(windows.size()); }
  halo::Box own_inputs() const;
  halo::Box own_outputs() const;
};

// What some outputs look at, padding included.
halo::Box reach_of(const ConvolutionTask& task, const halo::Box& outputs);
// Of this rank's outputs those that need its own inputs only; none where these
// are not needed at all.
halo::Box interior_of(const ConvolutionTask& task);
// The outputs whose gradients each rank's inputs need.
Needs needs_of_gradient(const ConvolutionTask& task);

// A box of a tensor whose axes from 2 on begin at the origin's.
at::Tensor part_at(at::Tensor tensor, const halo::Box& box,
                   const halo::Box& origin, int axes);
// Of a tensor over a box.
std::vector<std::int64_t> sizes_over(const halo::Box& box, int axes,
                                     std::int64_t samples,
                                     std::int64_t channels);

// This rank's tile as the convolution takes it that sees zeros around it: its
// results are right for the interior, and elsewhere lack nothing but the part
// of the halos.
class HomeTile {
 public:
  explicit HomeTile(const ConvolutionTask& task);

  // False: no output looks at the tile.
  bool has_any() const { return has_any_; }
  // That the convolution adds.
  const std::vector<std::int64_t>& padding() const { return padding_; }
  // Without a copy where the convolution's padding will do.
  at::Tensor input(const at::Tensor& tile) const;
  at::Tensor input_adjoint(const at::Tensor& gradient) const;

 private:
  bool has_border() const;

  bool has_any_ = false;
  std::vector<std::int64_t> padding_;
  std::vector<std::int64_t> border_;  // as constant_pad_nd takes it
};

// Outputs that are not in the interior, and memory for all that they look at.
struct Band {
  halo::Box outputs;
  halo::Box inside;  // the inputs, as far as they are in the image
  at::Tensor inputs;
  at::Tensor part;  // of `inputs`, that is inside; none if nothing is
};
std::vector<Band> bands_of(const ConvolutionTask& task, const at::Tensor& tile);
std::vector<halo::Patch> patches_of(const std::vector<Band>& bands);
// What is left are the halos.
void forget_own(const Band& band, const ConvolutionTask& task);

}  // namespace sheaf::spatial
