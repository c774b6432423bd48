#pragma once
// The learning rate as a function of the step.

#include <cstdint>

#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// constant: the rate. step: multiplied by `factor` after each `every` epochs.
// cosine: half a wave from the rate down to `final_factor` of it at the end of
// the run. A warm-up rises in a straight line from `warmup_factor` of the rate;
// cosine then has the rest of the run for its wave.
class Schedule {
 public:
  Schedule(const RunConfig& config, std::int64_t steps_per_epoch);

  // Of step 0, 1, ...; needs no memory of the steps before.
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
