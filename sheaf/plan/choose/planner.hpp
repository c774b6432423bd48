#pragma once
// Chooses precisions and the exchange: first the fastest plan, then higher
// precisions as long as they cost no time.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/plan/choose/exchange_search.hpp"
#include "sheaf/plan/choose/indicator.hpp"
#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

// Limits and preferences for choose_plan().
struct PlannerOptions {
  std::int64_t memory_limit = 0;      // bytes per worker; 0: none
  double slack = 0;                   // 0.02: up to 2 % slower than the fastest
  std::vector<Precision> precisions;  // allowed ones; empty: all recorded
  PrecisionPlan fixed;                // layers whose precision is given
  IndicatorKind indicator = IndicatorKind::kVariance;
  // Allowed exchange methods; nullopt: keep those of the cluster.
  std::optional<ExchangeChoices> exchange = ExchangeChoices{};
};

// A step on the path from the fastest plan to the chosen one.
struct TradeOff {
  std::string layer;  // layer whose precision is raised; "": fastest plan
  std::size_t kind = 0;
  Precision precision = Precision::kF32;
  std::int64_t ns = 0;
  double indicator = 0;  // over all kinds
  bool is_kept = true;
};

// Prediction with one precision for all layers.
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
  std::vector<TradeOff> trade_offs;
  // False if no trace has layer statistics; all indicators are then NaN.
  bool has_indicator = true;
  // By kind: the reason for each layer's precision.
  std::vector<std::map<std::string, std::string>> reasons;
  ChosenExchange exchange;  // for more than one worker
};

// Chooses the exchange with all layers in the highest precision, then the
// precisions with this exchange, then the exchange again, because a weight that
// is cast cannot be sent as factors. Throws UsageError if no plan satisfies the
// options.
ChosenPlan choose_plan(const Cluster& cluster, const PlannerOptions& options);

// The text of plan.json, for runs and for readers. Its top-level precisions are
// those of the first kind of device; "devices" lists those of all kinds by
// device name.
std::string plan_text(const Cluster& cluster, const ChosenPlan& chosen);

}  // namespace sheaf::plan
