#pragma once
// Describes a device by its peak rates and converts traces of one device to
// another by a roofline model. A prediction, not a measurement.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/predict/cast_cost.hpp"

namespace sheaf::plan {

struct DeviceProfile {
  std::string name;  // as in traces: "NVIDIA H200"
  // Peak rate of products in 10^12 operations per second, by precision; one
  // addition and one multiplication count as two. The device cannot compute in
  // other precisions.
  std::map<Precision, double> tflops;
  double memory_gbs = 0;
  std::int64_t memory_bytes = 0;  // 0: unknown
  // Time of a call that launches a kernel, and the time a host thread takes
  // relative to the other host.
  double launch_us = 0;  // 0: unknown
  double host_time = 1;

  bool can(Precision precision) const { return tflops.contains(precision); }
};

// Operations of a layer's forward product, from its shapes; 0 if unknown.
double flops_of(const Slot& slot);

// Converts the trace to another device. Products scale with the ratio of their
// roofs, the larger of operations / compute rate and bytes / bandwidth; all
// other kernels scale with bandwidth. Throws UsageError if one of the devices
// cannot compute in the trace's precision.
StepProfile scale_profile(StepProfile profile, const DeviceProfile& from,
                          const DeviceProfile& to);

// Converts traces of `from` to `to`, limited to precisions in which `to` can
// compute. A trace in bf16 is used for f16 if `to` supports only f16 and there
// is no trace in f16. Throws UsageError if no trace is left.
std::vector<StepProfile> traces_on(const std::vector<StepProfile>& traces,
                                   const DeviceProfile& from,
                                   const DeviceProfile& to);

// Casts scale with bandwidth.
CastCosts scale_casts(CastCosts costs, const DeviceProfile& from,
                      const DeviceProfile& to);

}  // namespace sheaf::plan
