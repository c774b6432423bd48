#pragma once
// plan.json: what `sheaf plan` chose, for runs and for people.

#include <filesystem>
#include <string>

#include "sheaf/plan/choose/planner.hpp"

namespace sheaf::plan {

// The text of plan.json. Precisions of the first kind of device are those of
// the file; those of all kinds stand beside them by the device's name.
std::string plan_text(const Cluster& cluster, const ChosenPlan& chosen);

}  // namespace sheaf::plan
