#pragma once
// Which inputs an output of upsampling is made of, along one axis.

#include <torch/types.h>

#include <optional>
#include <vector>

#include "sheaf/halo/interval.hpp"

namespace sheaf::spatial {

// Output o is (1 - part) of the input low[o] and `part`, part_of_high[o], of
// high[o]. All tables are of the whole axis and do not descend.
struct Resampling {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;    // empty: only `low` counts
  std::vector<double> part_of_high;  // as long as `high`
  // Where gradients of outputs go; empty: to the inputs above.
  std::vector<std::int64_t> gradient;

  std::int64_t outputs() const { return static_cast<std::int64_t>(low.size()); }
  // The inputs of some outputs, and of their gradients.
  halo::Interval needed(const halo::Interval& some) const;
  bool operator==(const Resampling&) const = default;
};

// An axis of an upsampling to be looked at. Nearest places are rounded as
// libtorch does it, which depends on its version, the type and more; so it is
// asked.
struct ResampledAxis {
  std::int64_t inputs = 1;
  std::int64_t outputs = 1;
  std::optional<double> scale = std::nullopt;
};

enum class MemoryOrder {
  kUsual,
  kChannelsLast,
  kOther,  // or with gaps
};

// What decides about the kernel that libtorch takes, and how that rounds: also
// the sizes of the image's other axes.
struct NearestKernel {
  std::vector<ResampledAxis> axes;  // of the image, 1 to 3
  bool is_exact = false;
  std::int64_t channels = 2;
  MemoryOrder order = MemoryOrder::kUsual;
  at::ScalarType type = at::kFloat;
};
// Along one of the axes.
Resampling nearest_resampling(const NearestKernel& kernel, std::size_t which);

Resampling linear_resampling(const ResampledAxis& axis, bool aligns_corners);

// Some outputs, along an axis of a tensor that begins with the input `begin`.
// Differentiable.
at::Tensor resample(const at::Tensor& input, std::int64_t axis,
                    const Resampling& rule, const halo::Interval& outputs,
                    std::int64_t begin);

}  // namespace sheaf::spatial
