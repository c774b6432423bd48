#pragma once
// What it takes to turn numbers of one type into another.

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

// Errors count relative to the time, samples far from the rest are dropped,
// and ns >= 0. UsageError for fewer than two sizes.
CastCost fit_cast(const std::vector<CastSample>& samples);

// Between a cast on a device and the kernel before it.
inline constexpr std::int64_t kCastGapNs = 1000;

struct CastCosts {
  std::map<std::pair<Precision, Precision>, CastCost> pairs;
  double host_ns = 12'000;  // of a thread that starts one on a device
  bool has_device = true;   // else a core computes

  // Of a pair that was not measured by another one and their bytes; where none
  // was, what is usual.
  CastCost of(Precision from, Precision to) const;
};

}  // namespace sheaf::plan
