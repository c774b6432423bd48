#pragma once
// The route of each parameter's gradient, and the reason for it.

#include <map>
#include <string>
#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/dad/dad_options.hpp"
#include "sheaf/parallel/dad/factor_reducer.hpp"
#include "sheaf/parallel/dad/parameter_use.hpp"
#include "sheaf/parallel/dad/step_model.hpp"
#include "sheaf/plan/format/parcel_rules.hpp"

namespace sheaf::parallel {

struct RouteChoice {
  Route route = Route::kGradient;
  std::string reason;
};

struct RouteSettings {
  DadMode mode = DadMode::kDad;
  int rank = 4;
  int feedback_rows = plan::kFeedbackRows;
  bool allows_low_rank = false;  // in auto
  bool skips_zeros = false;
  bool first_layer_gradient = false;
  std::map<std::string, Route> by_name = {};  // overrides everything else
  std::map<std::string, Route> planned = {};  // overrides the mode
  double parcel_bytes = plan::kParcelBytes;
};

// Measures how fast the ranks of a group communicate and compute, which takes
// some tens of milliseconds. Returns the same values on all ranks. All ranks
// must call it.
LinkModel measure_link(const comm::Group& group, Where where);

std::vector<RouteChoice> choose_routes(const std::vector<ParameterUse>& uses,
                                       const RouteSettings& settings,
                                       const LinkModel& link);

// The choice of choose_routes(). For auto there are further candidates, with
// one route for all free weights, if their predicted time is not much longer.
struct RouteCandidate {
  std::string name;  // "predicted", "dad for all"
  std::vector<RouteChoice> choices;
  double predicted_ms = 0;
  bool skips_zeros = false;
};
std::vector<RouteCandidate> route_candidates(
    const std::vector<ParameterUse>& uses, const RouteSettings& settings,
    const LinkModel& link);
// Merges both lists, fastest first, without candidates that are predicted to
// take much longer than the fastest.
std::vector<RouteCandidate> best_of(std::vector<RouteCandidate> list,
                                    std::vector<RouteCandidate> more);

// Converts the routes to tensors of a saved state, and back; other entries are
// ignored.
NamedTensors state_of(const FixedRoutes& fixed);
FixedRoutes routes_in(const NamedTensors& state);

// The complete plan, including parcels. A bias uses the route of its weights if
// all of them use factors.
FactorPlan plan_factors(const std::vector<ParameterUse>& uses,
                        const std::vector<RouteChoice>& choices, int ranks,
                        double parcel_bytes = plan::kParcelBytes);

}  // namespace sheaf::parallel
