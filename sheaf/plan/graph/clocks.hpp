#pragma once
// Clocks of ranks, compared by what they have done together.

#include <cstdint>
#include <vector>

#include "sheaf/plan/graph/step_graph.hpp"

namespace sheaf::plan {

// What each rank's clock is ahead of the first rank's, in ns: collectives end
// everywhere at the same moment. All ranks' steps have the same collectives;
// without any, offsets are 0.
std::vector<std::int64_t> clock_offsets(
    const std::vector<const StepGraph*>& ranks);

// What each collective takes once its last rank is there.
std::vector<std::int64_t> collective_ns(
    const std::vector<const StepGraph*>& ranks);

}  // namespace sheaf::plan
