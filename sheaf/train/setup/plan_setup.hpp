#pragma once
// Reads the plan files that a config names: precisions and exchange methods
// (plan), and routes of parameters (dad.plan).

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/dad/dad_plan.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/format/precision_plan.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// Rank 0 reads the plan, and each rank checks that its device can run the
// network accordingly. Throws IoError or UsageError on the ranks that detect a
// problem and FailedOnRoot on the others. All ranks must call it; does nothing
// without a plan.
void check_plan(const RunConfig& config, const torch::nn::Module& module,
                const comm::Group& group, const torch::Device& device);

// The precisions for this rank's device. Rank 0 reads the file, so it need not
// exist on other hosts. All ranks must call it.
plan::PrecisionPlan plan_for_all(const RunConfig& config,
                                 const comm::Group& group,
                                 const torch::Device& device);

// The exchange methods of the plan; nullopt without a plan, if the plan does
// not specify them, or for one rank. Rank 0 reads the file; all ranks must call
// it.
std::optional<plan::ExchangePlan> exchange_for_all(const RunConfig& config,
                                                   const comm::Group& group);

// For each parameter that may be a weight: its first name in the module, and
// the name of its layer. A shared parameter is listed once per layer.
std::vector<std::pair<std::string, std::string>> weights_by_layer(
    const torch::nn::Module& module);

// The vendor's name of the device: "NVIDIA H200".
std::string name_of(const torch::Device& device);

// The text of dad_plan.json: the routes that strategy auto has chosen, so that
// another run can reuse them (dad.plan).
std::string routes_text(const parallel::FixedRoutes& routes);
// Throws a UsageError that names `file` if the text is not in the format of
// routes_text().
parallel::FixedRoutes parse_routes(const std::string& text,
                                   const std::string& file);

}  // namespace sheaf::train
