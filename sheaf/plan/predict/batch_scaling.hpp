#pragma once
// Scales traces to another batch size.

#include <cstdint>
#include <vector>

#include "sheaf/plan/graph/step_profile.hpp"

namespace sheaf::plan {

// Scales one trace by rule: the work of the model's operators and their memory
// are proportional to the batch; weights, their gradients and everything
// outside the model stay the same. Throws UsageError if the trace does not
// record its batch size.
StepProfile at_batch(StepProfile trace, std::int64_t batch);

// Interpolates linearly between two traces of one model, device and precision
// with different batch sizes: the time of each part of the step and each
// allocation. A slope is never negative, because less work for more samples is
// noise.
StepProfile at_batch(const StepProfile& one, const StepProfile& other,
                     std::int64_t batch);

// Scales traces of one device to `batch`: for each precision from the only
// trace or from the two with the nearest batch sizes.
std::vector<StepProfile> all_at_batch(const std::vector<StepProfile>& traces,
                                      std::int64_t batch);

}  // namespace sheaf::plan
