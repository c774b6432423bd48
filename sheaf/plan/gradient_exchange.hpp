#pragma once
// What ranks that average their gradients add to the step of one.

#include <vector>

#include "sheaf/plan/operator_map.hpp"
#include "sheaf/plan/step_profile.hpp"

namespace sheaf::plan {

struct ExchangeOptions {
  BucketRule buckets;
  // The exchange needs the cores that compute, so nothing overlaps.
  bool is_inline = false;
  std::int64_t launch_ns = 10'000;
};

// A step of this profile's model (mixed or not) with an all-reduce for each
// bucket as soon as its last gradient is there, and a wait for all of them
// after backward. A step that has collectives already is given back as it is.
StepGraph with_exchange(StepGraph step, const StepProfile& profile,
                        const ExchangeOptions& options);

// The bytes of each collective of the result, in f32.
std::vector<double> collective_bytes(const StepGraph& step);

}  // namespace sheaf::plan
