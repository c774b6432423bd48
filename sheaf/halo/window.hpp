#pragma once
// A windowed operation along one axis: convolution, pooling, and with the roles
// of inputs and outputs exchanged, transposed convolution. Output o looks at
// the inputs o * stride - pad_low + k * dilation, for k below `kernel`; those
// outside of the image are padding.

#include "sheaf/halo/cuts.hpp"

namespace sheaf::halo {

struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad_low = 0;
  std::int64_t pad_high = 0;
  std::int64_t dilation = 1;
  bool ceil_mode = false;  // the last window may reach beyond the padding

  // From the first input of a window to the last.
  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
};

// How many outputs there are. In ceil mode the last window must begin in the
// image or in the low padding. UsageError when the window fits nowhere.
std::int64_t output_size(const Window& window, std::int64_t inputs);

// The inputs that an interval of outputs looks at, padding included: it may
// begin below 0 and end above the image. Nothing for no outputs.
Interval needed(const Window& window, const Interval& outputs);

// An interval as a part of the image and padding on both sides of it. All of
// it may be padding; that counts as low.
struct Padded {
  Interval inside;
  std::int64_t low = 0;
  std::int64_t high = 0;
};
Padded clamp(const Interval& interval, std::int64_t size);

// Cuts of the outputs that follow the inputs': an output belongs to whoever
// owns the centre of its window (the lower one of two), or the input nearest
// to it. Halos then stay below half a window on each side at any depth of the
// network, where balanced outputs would drift away from their inputs. Loads
// may become uneven; Cuts::balanced(output_size(...), parts) is the other way.
Cuts following_cuts(const Window& window, const Cuts& inputs);

// Those of the outputs whose windows, as far as they are in the image of
// `size`, lie in the owned inputs: they can be computed before halos come.
Interval interior(const Window& window, const Interval& outputs,
                  const Interval& owned, std::int64_t size);

// The outputs, of `count`, whose windows reach some of the inputs: what the
// owner of inputs needs of the outputs' gradient. With dilation or a stride
// above the extent some of them may look past all of the inputs.
Interval touching(const Window& window, const Interval& inputs,
                  std::int64_t count);

// Transposed convolution: input i adds to the outputs i * stride - pad_low +
// k * dilation. `output_padding` outputs more at the high end.
std::int64_t transposed_size(const Window& window, std::int64_t inputs,
                             std::int64_t output_padding);
// The inputs, of `count`, that an interval of outputs is made of.
Interval transposed_needed(const Window& window, const Interval& outputs,
                           std::int64_t count);
// Where the outputs of an interval of inputs lie when they are computed
// without padding. Outputs wanted beyond it are zero (and bias); those below 0
// or above the size are to be cropped.
Interval transposed_produced(const Window& window, const Interval& inputs);
// As following_cuts: output o goes with the input whose outputs have their
// centre at o or next below.
Cuts transposed_following_cuts(const Window& window, const Cuts& inputs,
                               std::int64_t output_padding);

}  // namespace sheaf::halo
