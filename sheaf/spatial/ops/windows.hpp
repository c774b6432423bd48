#pragma once
// What a windowed operation needs of a split tensor, and how its result is cut.

#include <vector>

#include "sheaf/halo/window.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {

// Windows of the last axes of a tensor.
struct WindowPlan {
  Split output;  // with the input's sizes on the other axes
  Needs needs;
  // Of axes that are not cut: padding low and high, as constant_pad_nd takes
  // it.
  std::vector<std::int64_t> other_padding;
};

WindowPlan plan_windows(const Split& input,
                        const std::vector<halo::Window>& windows);

// The input with all that the windows of this rank's outputs look at, `fill`
// included: then the operation needs no padding. `pads_others` is false where
// the operation itself pads axes that are not cut.
at::Tensor window_input(const at::Tensor& local, const Split& input,
                        const WindowPlan& plan, double fill, bool pads_others);

// The same for a transposed operation: outputs follow their inputs, and each
// rank takes the inputs that its outputs are made of.
struct TransposedPlan {
  Split output;  // with the input's sizes on the other axes
  Needs needs;
  // By axis of the image: the inputs that this rank takes.
  std::vector<halo::Interval> inputs;
};
// `more` outputs at the high end of each axis.
TransposedPlan plan_transposed(const Split& input,
                               const std::vector<halo::Window>& windows,
                               const std::vector<std::int64_t>& more);
// Out of all that the inputs give without padding, this rank's outputs; zeros
// where nothing reaches.
at::Tensor own_outputs(const at::Tensor& made, const TransposedPlan& plan,
                       const std::vector<halo::Window>& windows);

}  // namespace sheaf::spatial
