#pragma once
// Cost of conversions between types.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sheaf/plan/format/precision_plan.hpp"

namespace sheaf::plan {

// n elements take ns_per_element * n + ns.
struct CastCost {
  double ns_per_element = 0;
  double ns = 0;
  double of(double elements) const { return ns_per_element * elements + ns; }
};

struct CastSample {
  double elements = 0;
  double ns = 0;
};

// Fits a line to samples by relative error, after dropping outliers, with ns >=
// 0. Throws UsageError for fewer than two sizes.
CastCost fit_cast(const std::vector<CastSample>& samples);

// Gap between a cast on a device and the kernel before it.
inline constexpr std::int64_t kCastGapNs = 1000;

struct CastCosts {
  std::map<std::pair<Precision, Precision>, CastCost> pairs;
  double host_ns = 12'000;  // thread time to launch a cast on a device
  bool has_device = true;   // false: casts run on a core

  // A pair that was not measured is scaled by bytes from another one; if there
  // is none, typical values are used.
  CastCost of(Precision from, Precision to) const;
};

}  // namespace sheaf::plan
