#pragma once
// plan.json: the result of `sheaf plan`, for runs and for readers.

#include <filesystem>
#include <string>

#include "sheaf/plan/choose/planner.hpp"

namespace sheaf::plan {

// The text of plan.json. Its top-level precisions are those of the first kind
// of device; "devices" lists those of all kinds by device name.
std::string plan_text(const Cluster& cluster, const ChosenPlan& chosen);

}  // namespace sheaf::plan
