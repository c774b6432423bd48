#pragma once
// The measured times of recorded steps, which their graphs do not contain, and
// the clocks of ranks, aligned by their common collectives.

#include <cstdint>
#include <vector>

#include "sheaf/plan/graph/step_graph.hpp"
#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/graph/step_replay.hpp"

namespace sheaf::plan {

struct MeasuredStep {
  StepProfile profile;
  ReplayTimes times;  // measured, in the format of a replay
};

// Reads the same step as read_profile(), with the same errors.
MeasuredStep read_measured(const std::filesystem::path& path);

// Measured times of the marks and kernels of a step's graph.
ReplayTimes measured_times(const StepGraph& graph, const StepTrace& step);

// The offset of each rank's clock from the first rank's, in ns, assuming that
// collectives end on all ranks at the same moment. The steps of all ranks must
// have the same collectives; without any, offsets are 0.
std::vector<std::int64_t> clock_offsets(
    const std::vector<const StepGraph*>& ranks);

// Duration of each collective after the arrival of its last rank.
std::vector<std::int64_t> collective_ns(
    const std::vector<const StepGraph*>& ranks);

}  // namespace sheaf::plan
