#pragma once
// The plan that a run description names: precisions, and the exchange.

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/format/precision_plan.hpp"
#include "sheaf/train/config/config.hpp"

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

// What the plan says that ranks exchange; none without a plan, where it does
// not tell, and for one rank. Rank 0 reads the file; all call it.
std::optional<plan::ExchangePlan> exchange_for_all(const RunConfig& config,
                                                   const comm::Group& group);

// Of each parameter that may be a weight: the name that its module gives it
// first, and that of its layer. A shared one is there under each layer's name.
std::vector<std::pair<std::string, std::string>> weights_by_layer(
    const torch::nn::Module& module);

// As its maker calls it: "NVIDIA H200".
std::string name_of(const torch::Device& device);

}  // namespace sheaf::train
