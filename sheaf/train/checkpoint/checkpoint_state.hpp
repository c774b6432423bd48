#pragma once
// The tensors of a TrainState as dictionaries for the files of a checkpoint.

#include "sheaf/train/checkpoint/checkpoint.hpp"

namespace sheaf::train {

// Stores the optimizer's tensors, the exchange's and the metric sums in one
// dictionary; take_rest() separates them again.
NamedTensors with_rest(const TrainState& state);
void take_rest(TrainState& state);

}  // namespace sheaf::train
