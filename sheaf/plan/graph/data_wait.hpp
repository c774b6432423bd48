#pragma once
// Steps that wait for data. A loader's threads make batches while others
// compute: a step takes as long as the slower of the two. Where a trace shows a
// step waiting for its batch, the loader is the slower one, and what the step
// takes is what the loader takes for a batch.

#include <cstdint>

#include "sheaf/plan/graph/step_profile.hpp"

namespace sheaf::plan {

// How long the step's own thread has done nothing in its first phase "data".
std::int64_t data_wait_ns(const StepTrace& step, const Names& names);

// Where the trace's steps wait for data, takes the waiting out of the profile
// and tells what the loader takes (StepGraph::loader_ns). Where batches are
// made by the step's own thread nothing is changed.
void take_out_data_wait(StepProfile& profile, const Trace& trace);

}  // namespace sheaf::plan
