#pragma once
// Selects the device of a rank.

#include <torch/types.h>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// This rank's device according to the config; the ranks of a host that use a
// GPU are assigned its GPUs round-robin. Throws UsageError if the number of
// devices does not match the number of ranks, and on each rank whose GPU is not
// available; the other ranks then throw FailedOnRoot. All ranks must call it.
torch::Device device_of_rank(const RunConfig& config, const comm::Group& group);

}  // namespace sheaf::train
