#pragma once
// Traces of steps with other numbers of samples than were recorded.

#include <cstdint>
#include <vector>

#include "sheaf/plan/graph/step_profile.hpp"

namespace sheaf::plan {

// By rule, from one trace: what operators of the model do, and the memory that
// they take, goes with the batch; weights, their gradients and all outside the
// model stay. UsageError where the trace does not tell its batch.
StepProfile at_batch(StepProfile trace, std::int64_t batch);

// From two traces of one model, device and precision with unlike batches: what
// each part of the step takes is a line through both, as is each allocation. No
// line falls: less work with more samples is noise.
StepProfile at_batch(const StepProfile& one, const StepProfile& other,
                     std::int64_t batch);

// The traces at `batch`, each precision from all that were recorded of it: one
// or, where there are more, the two with the nearest batches. They are of one
// device.
std::vector<StepProfile> all_at_batch(const std::vector<StepProfile>& traces,
                                      std::int64_t batch);

}  // namespace sheaf::plan
