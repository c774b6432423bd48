#pragma once
// The numbers of a run's state: all of it but the tensors.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sheaf/train/log/metric_values.hpp"
#include "sheaf/train/log/step_times.hpp"

namespace sheaf::train {

// Cumulative totals of a run over all resumptions. Work done after the
// checkpoint that a run was resumed from does not count.
struct RunTotals {
  double seconds = 0;
  std::int64_t epochs = 0;         // completed epochs
  double epoch_seconds = 0;        // their duration, including validation
  double open_epoch_seconds = 0;   // duration of the current epoch so far
  StepTimes times;                 // over the steps of completed epochs
  StepTimes open_times;            // over the steps of the current epoch
  std::int64_t skipped_steps = 0;  // skipped as non-finite
  std::int64_t open_skipped = 0;   // of those, in the current epoch
  MetricValues train;              // of the last completed epoch
  MetricValues validation;         // without rows: no validation
};

struct RunState {
  std::int64_t step = 0;   // completed optimizer steps
  std::int64_t epoch = 0;  // epoch to continue with
  std::int64_t batch = 0;  // its completed global batches
  std::int64_t pretrained_stages = 0;
  std::int64_t seed = 0;
  std::int64_t global_batch = 0;
  std::int64_t examples = 0;             // size of the training set; 0: unknown
  std::vector<std::string> class_names;  // by label; empty: unknown
  double best = std::numeric_limits<double>::quiet_NaN();  // best value
  std::int64_t best_step = -1;  // checkpoint with the best value; -1: none
  std::string best_metric;      // metric of `best`; empty: unknown
  std::int64_t epochs_since_best = 0;
  bool has_stopped_early = false;
  RunTotals totals;
};

}  // namespace sheaf::train
