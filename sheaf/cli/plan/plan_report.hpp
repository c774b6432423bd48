#pragma once
// The HTML report of a plan: `sheaf plan … --report plan.html`.

#include <string>

#include "sheaf/plan/choose/planner.hpp"
#include "sheaf/report/page/plan_page.hpp"

namespace sheaf::cli {

// Shown if a plan has no indicators.
inline constexpr const char* kNoStatistics =
    "the traces have no statistics of layers, which sheaf trace records: "
    "indicators are omitted, and layers are raised in arbitrary order";

struct PlanReport {
  const plan::Cluster* cluster = nullptr;
  const plan::ChosenPlan* chosen = nullptr;
  plan::IndicatorKind indicator = plan::IndicatorKind::kVariance;
  std::string measured{};  // trace of a run under the plan; "": none
};

// Throws UsageError if the measured trace is of another model, and the errors
// of read_profile().
report::PlanPage plan_report(const PlanReport& report);

}  // namespace sheaf::cli
