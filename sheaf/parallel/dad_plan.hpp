#pragma once
// Which way each parameter's gradient takes, and why.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/parallel/factor_reducer.hpp"
#include "sheaf/parallel/parameter_use.hpp"

namespace sheaf::parallel {

// What a step costs, for choices by time.
struct LinkModel {
  int ranks = 2;
  double latency_s = 20e-6;  // of one collective
  // Of factors into one rank, copies included, and of gradients out of and
  // into one rank: inside a host these two are far apart.
  double gather_bytes_per_s = 1e9;
  double reduce_bytes_per_s = 1e9;
  double skip_bytes_per_s = 1e9;  // matrices from which zeros are left out
  double flops = 20e9;            // of one rank
};

struct RouteChoice {
  Route route = Route::kGradient;
  std::string reason;
  double gradient_ms = 0;  // predicted, where it was chosen by time
  double factors_ms = 0;
  double edad_ms = 0;
  double low_rank_ms = 0;
};

enum class DadMode { kDad, kEdad, kRankDad, kAuto };

struct RouteWishes {
  DadMode mode = DadMode::kDad;
  int rank = 4;
  bool allows_low_rank = false;  // in auto
  bool skips_zeros = false;
  bool first_layer_gradient = false;
  std::map<std::string, Route> by_name;  // goes before all
};

std::vector<RouteChoice> choose_routes(const std::vector<ParameterUse>& uses,
                                       const RouteWishes& wishes,
                                       const LinkModel& link);

// Parcels and all. Biases go with their weights where all of those take
// factors.
FactorPlan plan_factors(const std::vector<ParameterUse>& uses,
                        const std::vector<RouteChoice>& choices, int ranks);

const char* name_of(Route route);

}  // namespace sheaf::parallel
