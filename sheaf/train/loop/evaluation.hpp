#pragma once
// Evaluates the network of a session on a whole dataset.

#include <optional>

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

}  // namespace sheaf::train
