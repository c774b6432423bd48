#pragma once
// The page about a plan: `sheaf plan … --report plan.html`.

#include <string>

#include "sheaf/plan/choose/planner.hpp"
#include "sheaf/report/page/plan_page.hpp"

namespace sheaf::cli {

// Said where a plan has no indicators.
inline constexpr const char* kNoStatistics =
    "the traces have no statistics of layers, which sheaf trace records: "
    "indicators are left out, and layers are raised in no order";

struct PlanReport {
  const plan::Cluster* cluster = nullptr;
  const plan::ChosenPlan* chosen = nullptr;
  plan::IndicatorKind indicator = plan::IndicatorKind::kVariance;
  std::string measured{};  // a trace of the plan; "": none
};

// UsageError where the trace is of another model; IoError as read_profile().
report::PlanPage plan_report(const PlanReport& report);

}  // namespace sheaf::cli
