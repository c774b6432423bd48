#pragma once
// The inputs that adaptive pooling needs of a split tensor, and how its result
// is cut.

#include <vector>

#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {

// An axis with one window per output. The windows cover the inputs, differ in
// size by at most one, and may overlap.
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

AdaptivePlan plan_adaptive(const Split& input,
                           const std::vector<AdaptiveAxis>& axes);

}  // namespace sheaf::spatial
