#pragma once
// Steps that wait for data. Loader threads prepare batches while others
// compute, so a step takes as long as the slower of the two. If a trace shows a
// step waiting for its batch, the loader is slower, and its time per batch is
// the time of the step.

#include <cstdint>

#include "sheaf/plan/graph/step_profile.hpp"

namespace sheaf::plan {

// Idle time of the step's own thread in its first phase "data".
std::int64_t data_wait_ns(const StepTrace& step, const Names& names);

// If the trace's steps wait for data, removes the waiting from the profile and
// sets the loader's time per batch (StepGraph::loader_ns). Does nothing if the
// step's own thread prepares the batches.
void take_out_data_wait(StepProfile& profile, const Trace& trace);

}  // namespace sheaf::plan
