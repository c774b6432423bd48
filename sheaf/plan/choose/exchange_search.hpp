#pragma once
// Chooses what workers send of each layer's gradient.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

struct ExchangeChoices {
  // Beside gradients, which any layer may take. Those by default are exact.
  std::vector<Exchange> ways = {Exchange::kDad, Exchange::kEdad};
  int rank = 4;             // of rank-dad
  bool has_reasons = true;  // else they are not asked for
};

struct ChosenExchange {
  ExchangePlan plan;
  std::int64_t ns = 0;  // of the whole cluster's step
  // Of each layer that is a product, what the step would take otherwise.
  std::map<std::string, std::string> reasons;
  // One way for all layers that can take it, and the step with it.
  std::vector<std::pair<std::string, std::int64_t>> uniform;
};

// The same ways, with gradients (or half) for all but the layers that it names.
ExchangePlan spelled_out(const ExchangePlan& ways, const StepProfile& profile);

// From the fastest two of one way for all layers and of the cluster's own ways,
// the way of one layer after the other is changed while that makes the
// predicted step shorter; a layer whose factors gain nothing sends its
// gradient. One precision plan for each kind of worker. With one worker nothing
// is exchanged.
ChosenExchange choose_exchange(const Cluster& cluster,
                               const std::vector<PrecisionPlan>& plans,
                               const ExchangeChoices& choices);

}  // namespace sheaf::plan
