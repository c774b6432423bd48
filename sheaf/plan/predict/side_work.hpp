#pragma once
// What each slot costs by itself in each trace: sums for a search.

#include <map>
#include <vector>

#include "sheaf/plan/predict/mixed_step.hpp"

namespace sheaf::plan {

// By slot, casts included, forward and backward: of the device, or of the
// thread where there is none.
std::vector<double> slot_work_ns(const StepProfile& profile);
std::vector<double> mixed_work_ns(const StepGraph& mixed, std::size_t slots);

class SideWork {
 public:
  explicit SideWork(const Recorded& recorded);

  // Of the device forward and backward, casts of inputs left out; of the
  // thread where there is no device.
  double ns(const StepProfile& profile, std::size_t slot) const {
    return at(profile).ns[slot];
  }
  // Made forward and kept until backward, casts of inputs left out.
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
