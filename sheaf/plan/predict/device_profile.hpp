#pragma once
// A device by what it can do at most, and traces of one device turned into
// those of another by that: a roofline, not a measurement.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/predict/cast_cost.hpp"

namespace sheaf::plan {

struct DeviceProfile {
  std::string name;  // as traces call it: "NVIDIA H200"
  // Products, in 10^12 operations a second, an addition and a multiplication
  // being two. It cannot compute in what is not here.
  std::map<Precision, double> tflops;
  double memory_gbs = 0;
  std::int64_t memory_bytes = 0;  // 0: not told
  // A call that starts a kernel, and how many times as long as on the other
  // host a thread takes.
  double launch_us = 0;  // 0: not told
  double host_time = 1;

  bool can(Precision precision) const { return tflops.contains(precision); }
};

// Operations of a layer's product forward, from its shapes; 0 where they do
// not tell.
double flops_of(const Slot& slot);

// The trace as it would be on another device. Products take as many times as
// long as the roof over them is lower, the larger of operations / computing and
// bytes / bandwidth; all else goes by bandwidth. UsageError where a device
// cannot compute in the trace's precision.
StepProfile scale_profile(StepProfile profile, const DeviceProfile& from,
                          const DeviceProfile& to);

// Traces of one device (`from`) as those of `to`: those in precisions that it
// can compute in. One in bf16 stands for f16 where `to` has only that and there
// is no trace of it. UsageError where none is left.
std::vector<StepProfile> traces_on(const std::vector<StepProfile>& traces,
                                   const DeviceProfile& from,
                                   const DeviceProfile& to);

// Casts go by bandwidth.
CastCosts scale_casts(CastCosts costs, const DeviceProfile& from,
                      const DeviceProfile& to);

}  // namespace sheaf::plan
