#pragma once
// The plan of precisions that a run description names.

#include <torch/nn/module.h>

#include "sheaf/comm/group.hpp"
#include "sheaf/plan/precision_plan.hpp"
#include "sheaf/train/config.hpp"

namespace sheaf::train {

// Rank 0 reads it, and each sees whether its device can run the network so.
// IoError and UsageError say what is wrong, on one rank or more, and the others
// throw FailedOnRoot. All call it; without a plan it does nothing.
void check_plan(const RunConfig& config, const torch::nn::Module& module,
                const comm::Group& group, const torch::Device& device);

// What the plan says for this rank's device. Rank 0 reads the file, so that
// other hosts need not have it; all call it.
plan::PrecisionPlan plan_for_all(const RunConfig& config,
                                 const comm::Group& group,
                                 const torch::Device& device);

// As its maker calls it: "NVIDIA H200".
std::string name_of(const torch::Device& device);

}  // namespace sheaf::train
