#pragma once
// A windowed operation along one axis: convolution, pooling and, with inputs
// and outputs exchanged, transposed convolution. Output o depends on the inputs
// o * stride - pad_low + k * dilation for 0 <= k < kernel; inputs outside of
// the image are padding.

#include "sheaf/halo/cuts.hpp"

namespace sheaf::halo {

struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad_low = 0;
  std::int64_t pad_high = 0;
  std::int64_t dilation = 1;
  bool ceil_mode = false;  // the last window may extend past the padding

  // The distance from the first input of a window to one past the last.
  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
};

// The number of outputs. In ceil mode the last window must begin in the image
// or in the low padding. Throws UsageError if the window does not fit.
std::int64_t output_size(const Window& window, std::int64_t inputs);

// The inputs that an interval of outputs depends on, including padding: it may
// begin below 0 and end above the image. Empty for no outputs.
Interval needed(const Window& window, const Interval& outputs);

// An interval split into a part of the image and the padding on both sides. An
// interval that is all padding counts as low padding.
struct Padded {
  Interval inside;
  std::int64_t low = 0;
  std::int64_t high = 0;
};
Padded clamp(const Interval& interval, std::int64_t size);

// Cuts of the outputs that follow the cuts of the inputs: an output belongs to
// the owner of its window's center (the lower one of two), or of the input
// closest to it. Halos then stay below half a window on each side at any depth
// of the network, while balanced outputs would drift away from their inputs.
// Loads may become uneven; Cuts::balanced(output_size(...), parts) is the
// alternative.
Cuts following_cuts(const Window& window, const Cuts& inputs);

// The outputs whose windows, clipped to the image of `size`, are inside of the
// owned inputs. They can be computed before the halos arrive.
Interval interior(const Window& window, const Interval& outputs,
                  const Interval& owned, std::int64_t size);

// The outputs, of `count`, whose windows overlap the inputs: the part of the
// outputs' gradient that the owner of the inputs needs. With dilation, or a
// stride larger than the extent, some of them may use none of the inputs.
Interval touching(const Window& window, const Interval& inputs,
                  std::int64_t count);

// The number of outputs of a transposed convolution, in which input i adds to
// the outputs i * stride - pad_low + k * dilation. `output_padding` adds
// outputs at the high end. Throws UsageError if the size would be negative.
std::int64_t transposed_size(const Window& window, std::int64_t inputs,
                             std::int64_t output_padding);
// The inputs, of `count`, that an interval of outputs depends on.
Interval transposed_needed(const Window& window, const Interval& outputs,
                           std::int64_t count);
// The outputs that an interval of inputs produces without padding. Outputs
// outside of it are zero (plus bias); outputs below 0 or above the size must be
// cropped.
Interval transposed_produced(const Window& window, const Interval& inputs);
// Like following_cuts: output o belongs to the owner of the input whose outputs
// have their center at o or closest below.
Cuts transposed_following_cuts(const Window& window, const Cuts& inputs,
                               std::int64_t output_padding);

}  // namespace sheaf::halo
