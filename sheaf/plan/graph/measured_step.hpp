#pragma once
// A recorded step with the moments that its graph forgets.

#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/graph/step_replay.hpp"

namespace sheaf::plan {

struct MeasuredStep {
  StepProfile profile;
  ReplayTimes times;  // measured, as those of a replay
};

// The step of read_profile(); errors as there.
MeasuredStep read_measured(const std::filesystem::path& path);

// When the marks and kernels of a step's graph were, in its trace.
ReplayTimes measured_times(const StepGraph& graph, const StepTrace& step);

}  // namespace sheaf::plan
