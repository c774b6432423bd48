#pragma once
// A recorded step with its measured times, which its graph does not contain.

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

}  // namespace sheaf::plan
