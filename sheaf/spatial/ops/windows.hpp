#pragma once
// The inputs that a windowed operation needs of a split tensor, and how its
// result is cut.

#include <vector>

#include "sheaf/halo/window.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {

// A plan for windows over the last axes of a tensor.
struct WindowPlan {
  Split output;  // with the input's sizes on the other axes
  Needs needs;
  // For axes that are not cut: low and high padding, in the order of
  // constant_pad_nd.
  std::vector<std::int64_t> other_padding;
};

WindowPlan plan_windows(const Split& input,
                        const std::vector<halo::Window>& windows);

// The input extended to everything that the windows of this rank's outputs
// cover, including `fill`, so that the operation needs no padding.
// `pads_others` is false if the operation itself pads the axes that are not
// cut.
at::Tensor window_input(const at::Tensor& local, const Split& input,
                        const WindowPlan& plan, double fill, bool pads_others);

// The same for a transposed operation: outputs follow their inputs, and each
// rank takes the inputs on which its outputs depend.
struct TransposedPlan {
  Split output;  // with the input's sizes on the other axes
  Needs needs;
  // By axis of the image: the inputs that this rank takes.
  std::vector<halo::Interval> inputs;
};
// `more`: additional outputs at the high end of each axis.
TransposedPlan plan_transposed(const Split& input,
                               const std::vector<halo::Window>& windows,
                               const std::vector<std::int64_t>& more);
// Selects this rank's outputs from all outputs that the inputs produce without
// padding; zeros where no input contributes.
at::Tensor own_outputs(const at::Tensor& made, const TransposedPlan& plan,
                       const std::vector<halo::Window>& windows);

// An axis of adaptive pooling, with one window per output. The windows cover
// the inputs, differ in size by at most one, and may overlap.
struct AdaptiveAxis {
  std::int64_t inputs = 1;
  std::int64_t outputs = 1;

  bool is_even() const { return outputs > 0 && inputs % outputs == 0; }
  // From floor(o * inputs / outputs) to ceil((o + 1) * inputs / outputs).
  halo::Interval window(std::int64_t o) const;
  std::int64_t centre(std::int64_t o) const;  // the lower of two
  // The inputs needed for some outputs.
  halo::Interval needed(const halo::Interval& some) const;
};

// Each output belongs to the rank that has the center of its window.
struct AdaptivePlan {
  Split output;  // with the input's sizes on the other axes
  Needs needs;
  std::vector<AdaptiveAxis> axes;  // the last axes of the tensor
  // By those axes: the inputs that this rank receives, and its outputs.
  std::vector<halo::Interval> places, mine;
};

// A plan for adaptive pooling over the last axes of a tensor.
AdaptivePlan plan_adaptive(const Split& input,
                           const std::vector<AdaptiveAxis>& axes);

}  // namespace sheaf::spatial
