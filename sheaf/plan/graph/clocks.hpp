#pragma once
// Aligns the clocks of ranks by their common collectives.

#include <cstdint>
#include <vector>

#include "sheaf/plan/graph/step_graph.hpp"

namespace sheaf::plan {

// The offset of each rank's clock from the first rank's, in ns, assuming that
// collectives end on all ranks at the same moment. The steps of all ranks must
// have the same collectives; without any, offsets are 0.
std::vector<std::int64_t> clock_offsets(
    const std::vector<const StepGraph*>& ranks);

// Duration of each collective after the arrival of its last rank.
std::vector<std::int64_t> collective_ns(
    const std::vector<const StepGraph*>& ranks);

}  // namespace sheaf::plan
