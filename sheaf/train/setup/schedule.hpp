#pragma once
// The learning rate as a function of the step.

#include <cstdint>

#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// constant: the base rate. step: multiplied by `factor` after every `every`
// epochs. cosine: half a cosine wave from the base rate down to `final_factor`
// of it at the end of the run. A warm-up rises linearly from `warmup_factor` of
// the rate; cosine then spans the rest of the run.
class Schedule {
 public:
  Schedule(const RunConfig& config, std::int64_t steps_per_epoch);

  // The rate of a step, counted from 0. Depends on no earlier calls.
  double rate(std::int64_t step) const;

 private:
  double factor(double step) const;

  ScheduleConfig schedule_;
  double rate_;
  double steps_per_epoch_;
  double warmup_steps_;
  double total_steps_;
};

}  // namespace sheaf::train
