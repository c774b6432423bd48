#pragma once
// Selects the best epoch of a run and decides when to stop early.

#include <string>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/log/metrics.hpp"

namespace sheaf::train {

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
