#pragma once
// Chooses how workers exchange the gradient of each layer.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

struct ExchangeChoices {
  // Allowed methods besides gradients, which every layer may use. The default
  // ones are exact.
  std::vector<Route> routes = {Route::kDad, Route::kEdad};
  int rank = 4;             // rank of rank-dad
  bool has_reasons = true;  // fill ChosenExchange::reasons
};

struct ChosenExchange {
  ExchangePlan plan;
  std::int64_t ns = 0;  // step of the whole cluster
  // By layer that is a product: the step time with other methods.
  std::map<std::string, std::string> reasons;
  // Step time if all layers that can use one method do so.
  std::vector<std::pair<std::string, std::int64_t>> uniform;
};

// An equivalent plan in which gradients (or half) is the default and all layers
// that use factors are named.
ExchangePlan spelled_out(const ExchangePlan& routes,
                         const StepProfile& profile);

// Starts from the fastest two among the uniform choices and the cluster's own
// plan, and changes the method of one layer at a time while the predicted step
// gets shorter. A layer that gains nothing from factors sends its gradient.
// `plans` has one precision plan per kind of worker. With one worker nothing is
// exchanged.
ChosenExchange choose_exchange(const Cluster& cluster,
                               const std::vector<PrecisionPlan>& plans,
                               const ExchangeChoices& choices);

}  // namespace sheaf::plan
