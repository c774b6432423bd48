#pragma once
// Evaluates the network of a session on a whole dataset, selects the best epoch
// and decides when to stop early.

#include <optional>
#include <string>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/loop/session.hpp"

namespace sheaf::train {

// Evaluates the model that would be saved, which is the same on all ranks. All
// ranks must call it.
MetricValues evaluate(TrainingSession& session, data::Loader& loader);

struct TestResult {
  MetricValues values;
  std::int64_t step = 0;  // whose weights were tested
};
// Tests the best weights if there is a validation set and they are among the
// checkpoints, else the last ones, which the learner has afterwards in any
// case. Nullopt without test data. All ranks must call it.
std::optional<TestResult> test_best(TrainingSession& session,
                                    const TrainState& state,
                                    const CheckpointFolder& checkpoints);

// `what` is "validation" or "test".
void warn_if_not_finite(const char* what, std::int64_t step,
                        const MetricValues& values);

// Name of the metric that selects the best epoch: "validation_loss".
std::string metric_name(const EarlyStoppingConfig& rule, bool has_validation);

// Whether the epoch with these values is the best so far; updates the state's
// record of the best epoch and of early stopping. All ranks must call it.
bool judge_epoch(const comm::Group& group, const EarlyStoppingConfig& rule,
                 const MetricValues& values, bool has_validation,
                 TrainState& state);

// Restarts the search for the best epoch.
void forget_best(TrainState& state);

}  // namespace sheaf::train
