#pragma once
// Chooses precisions, the fastest plan first and then as much precision back as
// costs no time, and what workers exchange.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/plan/choose/exchange_search.hpp"
#include "sheaf/plan/choose/indicator.hpp"
#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

struct PlannerOptions {
  std::int64_t memory_limit = 0;      // of each worker; 0: none
  double slack = 0;                   // 0.02: up to 2 % slower than the fastest
  std::vector<Precision> precisions;  // that may be used; none: all recorded
  PrecisionPlan fixed;                // layers that are not to be changed
  IndicatorKind indicator = IndicatorKind::kVariance;
  // Ways that layers' gradients may take; none: those of the cluster.
  std::optional<ExchangeChoices> exchange = ExchangeChoices{};
};

// A point of the way from the fastest plan to the chosen one.
struct TradeOff {
  std::string layer;  // that was raised; "": the fastest plan
  std::size_t kind = 0;
  Precision precision = Precision::kF32;
  std::int64_t ns = 0;
  double indicator = 0;  // of all kinds
  bool is_kept = true;
};

struct UniformStep {
  Precision precision = Precision::kF32;
  ClusterStep step;
  double indicator = 0;
  bool fits = true;
  std::vector<PrecisionPlan> plans{};  // by kind
};

struct ChosenPlan {
  std::vector<PrecisionPlan> plans;  // by kind
  ClusterStep step;
  double indicator = 0;
  ClusterStep fastest;
  double fastest_indicator = 0;
  std::vector<UniformStep> uniform;
  std::vector<TradeOff> way;
  // False where no trace has statistics of layers: all indicators are NaN.
  bool has_indicator = true;
  // By kind: why each layer has its precision.
  std::vector<std::map<std::string, std::string>> reasons;
  ChosenExchange exchange;  // of more than one worker
};

// Ways are chosen with all layers in the highest precision first; precisions
// are chosen with these; then ways once more, for a weight that is cast cannot
// be sent as a factor.
ChosenPlan choose_plan(const Cluster& cluster, const PlannerOptions& options);

}  // namespace sheaf::plan
