#pragma once
// On which device a rank computes.

#include <torch/types.h>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// This rank's of the description's devices; ranks of a host that want a GPU
// take its GPUs in turn. UsageError where the numbers of devices and ranks do
// not fit, and on a rank that wants a GPU which is not there; then the others
// throw FailedOnRoot. All ranks call it.
torch::Device device_of_rank(const RunConfig& config, const comm::Group& group);

}  // namespace sheaf::train
