#pragma once
// The route of each parameter's gradient, and why.

#include <map>
#include <string>
#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/dad/factor_reducer.hpp"
#include "sheaf/parallel/dad/parameter_use.hpp"
#include "sheaf/parallel/dad/step_model.hpp"

namespace sheaf::parallel {

struct RouteChoice {
  Route route = Route::kGradient;
  std::string reason;
};

enum class DadMode { kDad, kEdad, kRankDad, kAuto };

// Messages below this share one; the latency is then a small part.
constexpr double kParcelBytes = 256 << 10;

struct RouteWishes {
  DadMode mode = DadMode::kDad;
  int rank = 4;
  bool allows_low_rank = false;  // in auto
  bool skips_zeros = false;
  bool first_layer_gradient = false;
  std::map<std::string, Route> by_name = {};  // overrides everything else
  std::map<std::string, Route> planned = {};  // overrides the mode
  double parcel_bytes = kParcelBytes;
};

std::vector<RouteChoice> choose_routes(const std::vector<ParameterUse>& uses,
                                       const RouteWishes& wishes,
                                       const LinkModel& link);

// That choice, and for auto also one way for all weights that are free, where
// it is predicted to take little longer.
struct RouteCandidate {
  std::string name;  // "predicted", "dad for all"
  std::vector<RouteChoice> choices;
  double predicted_ms = 0;
  bool skips_zeros = false;
};
std::vector<RouteCandidate> route_candidates(
    const std::vector<ParameterUse>& uses, const RouteWishes& wishes,
    const LinkModel& link);
// Those of both, best first, without any that would take much longer than it.
std::vector<RouteCandidate> best_of(std::vector<RouteCandidate> list,
                                    std::vector<RouteCandidate> more);

// A choice of auto, which depends on times that were measured: kept, so that
// another run can repeat it.
struct FixedRoutes {
  std::map<std::string, Route> by_name;  // of all parameters that are trained
  bool skips_zeros = false;

  bool empty() const { return by_name.empty(); }
};
// As tensors of a saved state, and back; others' entries are left alone.
NamedTensors state_of(const FixedRoutes& fixed);
FixedRoutes routes_in(const NamedTensors& state);

// Parcels and all. Biases go with their weights where all of those take
// factors.
FactorPlan plan_factors(const std::vector<ParameterUse>& uses,
                        const std::vector<RouteChoice>& choices, int ranks,
                        double parcel_bytes = kParcelBytes);

const char* name_of(Route route);

}  // namespace sheaf::parallel
