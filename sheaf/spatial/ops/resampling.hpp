#pragma once
// The inputs of each output of an upsampling, along one axis.

#include <torch/types.h>

#include <optional>
#include <vector>

#include "sheaf/halo/interval.hpp"

namespace sheaf::spatial {

// Output o is (1 - part) times input low[o] plus `part` times input high[o],
// with part = part_of_high[o]. All tables cover the whole axis and are
// non-descending.
struct Resampling {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;    // empty: only `low` is used
  std::vector<double> part_of_high;  // same size as `high`
  // The inputs that receive the gradients of outputs; empty: `low` and `high`.
  std::vector<std::int64_t> gradient;

  std::int64_t outputs() const { return static_cast<std::int64_t>(low.size()); }
  // The inputs needed for some outputs and their gradients.
  halo::Interval needed(const halo::Interval& some) const;
  bool operator==(const Resampling&) const = default;
};

// An axis of an upsampling. The rounding of nearest positions depends on
// libtorch's version, the type and other properties; it is therefore observed
// by calling libtorch.
struct ResampledAxis {
  std::int64_t inputs = 1;
  std::int64_t outputs = 1;
  std::optional<double> scale = std::nullopt;
};

enum class MemoryOrder {
  kUsual,
  kChannelsLast,
  kOther,  // any other order, or gaps
};

// The properties that determine which kernel libtorch selects, and how it
// rounds; they include the sizes of the image's other axes.
struct NearestKernel {
  std::vector<ResampledAxis> axes;  // of the image, 1 to 3
  bool is_exact = false;
  std::int64_t channels = 2;
  MemoryOrder order = MemoryOrder::kUsual;
  at::ScalarType type = at::kFloat;
};
// The resampling along one of the axes.
Resampling nearest_resampling(const NearestKernel& kernel, std::size_t which);

Resampling linear_resampling(const ResampledAxis& axis, bool aligns_corners);

// Computes some outputs along an axis of a tensor whose first element is the
// input `begin`. Differentiable.
at::Tensor resample(const at::Tensor& input, std::int64_t axis,
                    const Resampling& rule, const halo::Interval& outputs,
                    std::int64_t begin);

}  // namespace sheaf::spatial
