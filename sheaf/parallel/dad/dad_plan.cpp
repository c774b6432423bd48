#include "sheaf/parallel/dad/dad_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {
namespace {

// Names in a saved state.
const std::string kRoute = "plan/route/";
const std::string kSkipsZeros = "plan/skips_zeros";

// Plans whose predicted time exceeds the best by this factor are not tried.
constexpr double kWorthATrial = 1.6;

// The route of a weight for which auto has no choice.
std::optional<RouteChoice> fixed_route(const ParameterUse& use,
                                       const RouteSettings& settings) {
  if (use.rows == 0)
    return RouteChoice{Route::kGradient, "not used in a matrix product"};
  if (use.has_other_use)
    return RouteChoice{Route::kGradient, "also used outside of products"};
  if (const auto found = settings.by_name.find(use.name);
      found != settings.by_name.end())
    return RouteChoice{found->second, "set by name"};
  if (use.takes_data && settings.first_layer_gradient)
    return RouteChoice{Route::kGradient,
                       "first layer: its inputs are the data"};
  if (const auto found = settings.planned.find(use.name);
      found != settings.planned.end())
    return RouteChoice{found->second, "from the plan"};
  if (settings.mode == DadMode::kAuto) return std::nullopt;
  if (settings.mode == DadMode::kRankDad && !use.is_lookup)
    return RouteChoice{Route::kRankDad, "mode rank-dad"};
  if (settings.mode == DadMode::kEdad && !use.is_lookup)
    return RouteChoice{Route::kEdad, "mode edad"};
  return RouteChoice{Route::kDad, "mode dad"};
}

// Searches for the routes with the shortest predicted step time.
class Search {
 public:
  Search(const std::vector<ParameterUse>& uses, const RouteSettings& settings,
         const LinkModel& link, std::vector<RouteChoice>& choices)
      : uses_(uses),
        settings_(settings),
        link_(link),
        model_(uses, link, settings.rank, settings.skips_zeros,
               settings.feedback_rows),
        choices_(choices) {}

  // Improves each of the uniform assignments (one route for all weights), and
  // keeps the fastest result.
  void find(const std::vector<std::size_t>& free) {
    std::vector<RouteChoice> best;
    double best_ms = 0;
    for (const Route start : kAll) {
      take(free, start);
      const double ms = improve(free);
      if (!best.empty() && ms >= best_ms) continue;
      best = choices_;
      best_ms = ms;
    }
    choices_ = best;
    for (const std::size_t i : free) explain(i, best_ms);
  }
  double found_ms() const { return step_ms(); }

  // After find(): the uniform assignments that are worth a trial.
  std::vector<RouteCandidate> others(const std::vector<std::size_t>& free) {
    const std::vector<RouteChoice> found = choices_;
    const double longest = kWorthATrial * step_ms();
    std::vector<RouteCandidate> list;
    for (const Route route : kAll) {
      take(free, route);
      const double ms = step_ms();
      if (ms > longest || has_same_routes(choices_, found)) continue;
      for (const std::size_t i : free)
        choices_[i].reason = fmt::format("by trial; {:.2f} ms predicted", ms);
      list.push_back({fmt::format("{} for all", name_of(route)), choices_, ms,
                      settings_.skips_zeros});
    }
    choices_ = found;
    return list;
  }

 private:
  static constexpr std::array kAll{Route::kEdad, Route::kDad, Route::kGradient,
                                   Route::kRankDad};

  // Weights that may not take the route take dad.
  void take(const std::vector<std::size_t>& free, Route route) {
    for (const std::size_t i : free)
      choices_[i].route = may_take(i, route) ? route : Route::kDad;
  }
  static bool has_same_routes(const std::vector<RouteChoice>& a,
                              const std::vector<RouteChoice>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const RouteChoice& one, const RouteChoice& other) {
                        return one.route == other.route;
                      });
  }

  bool may_take(std::size_t i, Route route) const {
    const ParameterUse& use = uses_[i];
    if (route == Route::kEdad)
      return use.above >= 0 &&
             plan::derives_deltas(
                 plan::Route::kEdad,
                 exchange_of(
                     choices_[static_cast<std::size_t>(use.above)].route));
    return route != Route::kRankDad ||
           (settings_.allows_low_rank && !use.is_lookup);
  }
  double step_ms() const {
    std::vector<RouteChoice> valid = choices_;
    for (std::size_t i = 0; i < valid.size(); ++i)
      if (valid[i].route == Route::kEdad && !may_take(i, Route::kEdad))
        valid[i].route = Route::kDad;
    return model_.step_ms(
        plan_factors(uses_, valid, link_.ranks, settings_.parcel_bytes));
  }
  double with(std::size_t i, Route route) {
    const Route before = std::exchange(choices_[i].route, route);
    const double ms = step_ms();
    choices_[i].route = before;
    return ms;
  }
  // Changes one weight at a time, until no change improves the time.
  double improve(const std::vector<std::size_t>& free) {
    double best = step_ms();
    for (bool has_changed = true; std::exchange(has_changed, false);)
      for (const std::size_t i : free)
        for (const Route route : kAll) {
          if (!may_take(i, route)) continue;
          const double ms = with(i, route);
          if (ms >= best * kWorthwhile) continue;
          choices_[i].route = route;
          best = ms;
          has_changed = true;
        }
    return best;
  }
  void explain(std::size_t i, double best_ms) {
    RouteChoice& choice = choices_[i];
    if (choice.route == Route::kEdad && !may_take(i, Route::kEdad))
      choice.route = Route::kDad;
    choice.reason =
        fmt::format("by predicted time: {:.2f} ms per step", best_ms);
    for (const Route route : kAll)
      if (route != choice.route && may_take(i, route))
        choice.reason +=
            fmt::format(", {:.2f} with {}", with(i, route), name_of(route));
  }

  // Smaller improvements are within the error of the model.
  static constexpr double kWorthwhile = 0.999;

  const std::vector<ParameterUse>& uses_;
  const RouteSettings& settings_;
  const LinkModel& link_;
  const StepModel model_;
  std::vector<RouteChoice>& choices_;
};

void explain_biases(const std::vector<ParameterUse>& uses,
                    std::vector<RouteChoice>& choices) {
  for (std::size_t i = 0; i < uses.size(); ++i)
    for (const std::size_t bias : uses[i].biases)
      if (choices[i].route == Route::kGradient)
        choices[bias].reason = "same as its weight, " + uses[i].name;
}

}  // namespace

const char* name_of(Route route) {
  switch (route) {
    case Route::kGradient:
      return "gradient";
    case Route::kDad:
      return "dad";
    case Route::kEdad:
      return "edad";
    case Route::kRankDad:
      return "rank-dad";
  }
  return "";
}

std::vector<RouteChoice> choose_routes(const std::vector<ParameterUse>& uses,
                                       const RouteSettings& settings,
                                       const LinkModel& link) {
  return route_candidates(uses, settings, link).front().choices;
}

std::vector<RouteCandidate> route_candidates(
    const std::vector<ParameterUse>& uses, const RouteSettings& settings,
    const LinkModel& link) {
  for (const auto* list : {&settings.by_name, &settings.planned})
    for (const auto& [name, route] : *list)
      SHEAF_CHECK(
          std::any_of(uses.begin(), uses.end(),
                      [&](const auto& use) { return use.name == name; }),
          "a route is given for '", name,
          "', which is not a parameter of the module");
  std::vector<RouteChoice> choices(uses.size());
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto fixed = fixed_route(uses[i], settings);
    if (fixed)
      choices[i] = *fixed;
    else
      free.push_back(i);
  }
  // In reverse order of the layers: deltas can be derived only if those of the
  // layer above are known.
  std::stable_sort(free.begin(), free.end(), [&](auto a, auto b) {
    return uses[a].order > uses[b].order;
  });
  std::vector<RouteCandidate> list;
  double predicted_ms = 0;
  if (!free.empty()) {
    Search search(uses, settings, link, choices);
    search.find(free);
    predicted_ms = search.found_ms();
    list = search.others(free);
  }
  list.insert(list.begin(),
              {"predicted", choices, predicted_ms, settings.skips_zeros});
  for (RouteCandidate& one : list) explain_biases(uses, one.choices);
  return list;
}

std::vector<RouteCandidate> best_of(std::vector<RouteCandidate> list,
                                    std::vector<RouteCandidate> more) {
  constexpr std::size_t kMost = 6;
  for (RouteCandidate& one : more) {
    one.name += one.skips_zeros ? ", without zeros" : ", with zeros";
    const bool has_factors = std::any_of(
        one.choices.begin(), one.choices.end(),
        [](const auto& choice) { return choice.route != Route::kGradient; });
    if (has_factors) list.push_back(std::move(one));
  }
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.predicted_ms < b.predicted_ms;
  });
  const auto is_slow = [&](const RouteCandidate& one) {
    return one.predicted_ms > kWorthATrial * list.front().predicted_ms;
  };
  list.erase(std::find_if(list.begin(), list.end(), is_slow), list.end());
  if (list.size() > kMost) list.resize(kMost);
  return list;
}

FactorPlan plan_factors(const std::vector<ParameterUse>& uses,
                        const std::vector<RouteChoice>& choices, int ranks,
                        double parcel_bytes) {
  FactorPlan plan;
  std::vector<std::size_t> order;
  std::vector<plan::ParcelItem> items;
  plan.is_bias.resize(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const ParameterUse& use = uses[i];
    plan.routes.push_back(choices[i].route);
    plan.calls.push_back(use.calls);
    items.push_back({exchange_of(choices[i].route), shape_of(use, ranks)});
    if (choices[i].route == Route::kGradient) continue;
    order.push_back(i);
    for (const std::size_t bias : use.biases) plan.is_bias[bias] = true;
  }
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (choices[i].route == Route::kGradient)
      for (const std::size_t bias : uses[i].biases) plan.is_bias[bias] = false;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(uses[a].order, a) < std::pair(uses[b].order, b);
  });
  auto parcels = plan::plan_parcels(items, order, parcel_bytes);
  plan.forward = std::move(parcels.forward);
  plan.backward = std::move(parcels.backward);
  return plan;
}

NamedTensors state_of(const FixedRoutes& fixed) {
  NamedTensors state;
  if (fixed.empty()) return state;
  state.emplace_back(kSkipsZeros,
                     at::full({1}, fixed.skips_zeros ? 1 : 0, at::kLong));
  for (const auto& [name, route] : fixed.by_name)
    state.emplace_back(
        kRoute + name,
        at::full({1}, static_cast<std::int64_t>(route), at::kLong));
  return state;
}

FixedRoutes routes_in(const NamedTensors& state) {
  FixedRoutes fixed;
  for (const auto& [name, tensor] : state) {
    if (name == kSkipsZeros) fixed.skips_zeros = tensor.item<bool>();
    if (!name.starts_with(kRoute)) continue;
    const auto number = tensor.item<std::int64_t>();
    SHEAF_CHECK(number >= 0 && number <= static_cast<int>(Route::kRankDad),
                "the saved route of ", name.substr(kRoute.size()), " is ",
                number, ", which this version does not support");
    fixed.by_name[name.substr(kRoute.size())] = static_cast<Route>(number);
  }
  return fixed;
}

}  // namespace sheaf::parallel
