#pragma once
// Cost of each slot alone in each trace: sums for the precision search.

#include <map>
#include <vector>

#include "sheaf/plan/predict/mixed_step.hpp"

namespace sheaf::plan {

// Forward and backward work by slot, including casts: device time, or thread
// time without a device.
std::vector<double> slot_work_ns(const StepProfile& profile);
std::vector<double> mixed_work_ns(const StepGraph& mixed, std::size_t slots);

class SideWork {
 public:
  explicit SideWork(const Recorded& recorded);

  // Forward and backward work without casts of inputs: device time, or thread
  // time without a device.
  double ns(const StepProfile& profile, std::size_t slot) const {
    return at(profile).ns[slot];
  }
  // Bytes allocated in forward and kept until backward, without casts of
  // inputs.
  double kept_bytes(const StepProfile& profile, std::size_t slot) const {
    return at(profile).bytes[slot];
  }
  double kept_bytes(const Recorded& recorded, const PrecisionPlan& plan) const;

 private:
  struct Sums {
    std::vector<double> ns;     // by slot
    std::vector<double> bytes;  // by slot
  };
  const Sums& at(const StepProfile& profile) const {
    return sums_.at(&profile);
  }
  std::map<const StepProfile*, Sums> sums_;
};

}  // namespace sheaf::plan
