#pragma once
// The fastest plan for one kind of worker within a memory limit.

#include <cstdint>
#include <vector>

#include "sheaf/plan/predict/mixed_step.hpp"

namespace sheaf::plan {

struct FastestOptions {
  std::int64_t memory_limit = 0;      // peak bytes; 0: none
  std::vector<Precision> precisions;  // allowed for layers; at least one
  PrecisionPlan fixed;                // layers named here keep their precision
  // Maximum number of states kept at once. If it is exceeded (many long skip
  // connections), the result may not be optimal.
  std::size_t most_states = 20'000;
};

struct FastestPlan {
  PrecisionPlan plan;
  double work_ns = 0;  // of the device, or of the CPU without one
  bool is_exact = true;
};

// Minimizes the sum of work and casts by dynamic programming along the forward
// pass. The state consists of the types of results that are still needed and
// the precisions of layers that are called again. Throws UsageError, with the
// smallest memory found, if no plan fits.
FastestPlan fastest_plan(const Recorded& recorded, const CastCosts& casts,
                         const FastestOptions& options);

}  // namespace sheaf::plan
