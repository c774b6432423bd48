#pragma once
// The fastest plan of one kind of worker under a limit of memory.

#include <cstdint>
#include <vector>

#include "sheaf/plan/predict/mixed_step.hpp"

namespace sheaf::plan {

struct FastestOptions {
  std::int64_t memory_limit = 0;      // bytes at once; 0: none
  std::vector<Precision> precisions;  // that layers may have; at least one
  PrecisionPlan fixed;                // layers named here keep their precision
  // States that are kept at once; with more than that (many long skips) the
  // result may not be the best.
  std::size_t most_states = 20'000;
};

struct FastestPlan {
  PrecisionPlan plan;
  double work_ns = 0;  // of the device, or of the thread where there is none
  bool is_exact = true;
};

// The least sum of work and casts, by dynamic programming along the forward
// pass; its state are the types of results that are still needed and the
// precisions of layers that come again. UsageError
// where no plan fits the memory, with the least that is needed.
FastestPlan fastest_plan(const Recorded& recorded, const CastCosts& casts,
                         const FastestOptions& options);

}  // namespace sheaf::plan
