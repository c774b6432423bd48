#include "sheaf/plan/choose/exchange_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace sheaf::plan {
namespace {

using At = std::size_t;

// A method is changed only if the step gets shorter than this fraction.
constexpr double kWorthChanging = 0.9999;
// Uniform choices slower than this multiple of the best are not starting
// points.
constexpr double kWorthAStart = 1.5;

double search_ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }

class ExchangeSearch {
 public:
  ExchangeSearch(const Cluster& cluster,
                 const std::vector<PrecisionPlan>& plans,
                 const ExchangeChoices& choices)
      : cluster_(cluster), choices_(choices) {
    for (At kind = 0; kind < plans.size(); ++kind) {
      alone_.push_back(step_alone(cluster, kind, plans[kind]));
      layers_.push_back(factor_layers(profile(kind), alone_.back()));
      options_.push_back(exchange_of(cluster, kind, plans));
    }
    find_free(plans);
    find_hopeless();
  }

  ChosenExchange run() {
    std::vector<Found> starts = try_uniform();
    if (const ExchangePlan& given = options_[0].routes; !given.layers.empty())
      starts.push_back({given, ns_of(given)});
    std::stable_sort(starts.begin(), starts.end(),
                     [](const auto& a, const auto& b) { return a.ns < b.ns; });
    const double longest = kWorthAStart * static_cast<double>(starts[0].ns);
    for (At i = 0; i < std::min<At>(starts.size(), 2); ++i) {
      Found& one = starts[i];
      if (static_cast<double>(one.ns) > longest) break;
      improve(one);
      give_back(one);
      if (chosen_.ns != 0 && one.ns >= chosen_.ns) continue;
      chosen_.plan = one.plan;
      chosen_.ns = one.ns;
    }
    if (choices_.has_reasons) explain();
    return std::move(chosen_);
  }

 private:
  struct Found {
    ExchangePlan plan;
    std::int64_t ns = 0;
  };

  const StepProfile& profile(At kind) const {
    return cluster_.kinds[kind].recorded->base();
  }
  // Finds the layers whose weights are not cast on any kind of worker.
  void find_free(const std::vector<PrecisionPlan>& plans) {
    ExchangePlan all;
    all.other = Route::kDad;
    const ExchangePlan usable =
        routes_under(all, cluster_.kinds[0].recorded->graph(), plans);
    for (const FactorLayer& layer : layers_[0])
      (has_factors(usable.of(layer.name)) ? free_ : cast_)
          .push_back(layer.name);
    // Edad depends on the layer above.
    std::reverse(free_.begin(), free_.end());
  }

  // Excludes methods that cannot pay: those whose final products take longer,
  // on every kind of worker, than averaging the gradient; and edad where it
  // equals dad.
  void find_hopeless() {
    for (const Route route : factor_routes()) {
      ExchangePlan plan;
      plan.other = route;
      plan.rank = choices_.rank;
      for (At i = 0; i < layers_[0].size(); ++i) {
        const FactorLayer& layer = layers_[0][i];
        const double reduce_ns =
            1e3 * topo::predict_us(topo::Collective::kAllReduce,
                                   topo::Algorithm::kAuto, cluster_.machine,
                                   cluster_.placement,
                                   4 * layer.in * layer.out);
        const bool is_dad = route == Route::kEdad && layer.above < 0;
        if (is_dad || longer_ns(plan, i) > reduce_ns)
          hopeless_.insert({layer.name, route});
      }
    }
  }
  // Additional compute time, on the kind of worker where it is smallest.
  double longer_ns(const ExchangePlan& plan, At layer) const {
    double least = std::numeric_limits<double>::infinity();
    for (At kind = 0; kind < layers_.size(); ++kind) {
      const ExchangeOptions& options = options_[kind];
      FactorLayer alone = layers_[kind][layer];
      alone.above = -1;
      const FactorCosts costs({alone}, plan, {options.workers, options.shares});
      least = std::min(least, costs.gradient_ns(0) - alone.gradient_ns);
    }
    return least;
  }

  std::int64_t ns_of(const ExchangePlan& plan) const {
    std::vector<StepGraph> steps;
    for (At kind = 0; kind < alone_.size(); ++kind) {
      ExchangeOptions options = options_[kind];
      options.routes = plan;
      steps.push_back(
          with_exchange(alone_[kind], profile(kind), options, layers_[kind]));
    }
    const auto together = replay_until_steady(cluster_, steps);
    return *std::max_element(together.step_ns.begin(), together.step_ns.end());
  }
  std::int64_t ns_with(ExchangePlan plan, const std::string& layer,
                       Route route) const {
    set(plan, layer, route);
    return ns_of(plan);
  }
  static void set(ExchangePlan& plan, const std::string& layer, Route route) {
    if (route == plan.other)
      plan.layers.erase(layer);
    else
      plan.layers[layer] = route;
  }
  // Ranks on mixed devices can only exchange gradients.
  bool has_mixed_devices() const {
    return std::any_of(cluster_.kinds.begin(), cluster_.kinds.end(),
                       [&](const WorkerKind& kind) {
                         return kind.recorded->model().device !=
                                cluster_.kinds[0].recorded->model().device;
                       });
  }
  std::vector<Route> factor_routes() const {
    std::vector<Route> list;
    if (has_mixed_devices()) return list;
    for (const Route route : choices_.routes)
      if (has_factors(route)) list.push_back(route);
    return list;
  }

  std::vector<Found> try_uniform() {
    std::vector<Route> bulks{Route::kGradients};
    if (std::find(choices_.routes.begin(), choices_.routes.end(),
                  Route::kHalf) != choices_.routes.end())
      bulks.push_back(Route::kHalf);
    std::vector<Found> list;
    for (const Route bulk : bulks) {
      ExchangePlan plan;
      plan.other = bulk;
      plan.rank = choices_.rank;
      add_uniform(plan, text_of(plan, bulk), list);
      if (free_.empty()) continue;
      for (const Route route : factor_routes()) {
        if (route == Route::kEdad && !has_deltas_that_follow()) continue;
        for (const std::string& layer : free_) plan.layers[layer] = route;
        add_uniform(plan,
                    text_of(plan, route) +
                        (bulk == Route::kHalf ? ", the rest half" : ""),
                    list);
      }
    }
    return list;
  }
  bool has_deltas_that_follow() const {
    return std::any_of(layers_[0].begin(), layers_[0].end(),
                       [](const auto& layer) { return layer.above >= 0; });
  }
  void add_uniform(const ExchangePlan& plan, const std::string& name,
                   std::vector<Found>& list) {
    list.push_back({plan, ns_of(plan)});
    chosen_.uniform.emplace_back(name, list.back().ns);
  }

  // Changes one layer at a time, from the top, until no change helps.
  void improve(Found& found) const {
    std::vector<Route> routes = factor_routes();
    routes.insert(routes.begin(), found.plan.other);
    bool has_changed = true;
    while (std::exchange(has_changed, false))
      for (const std::string& layer : free_)
        for (const Route route : routes) {
          if (route == found.plan.of(layer) ||
              hopeless_.contains({layer, route}))
            continue;
          const std::int64_t ns = ns_with(found.plan, layer, route);
          if (static_cast<double>(ns) >=
              static_cast<double>(found.ns) * kWorthChanging)
            continue;
          set(found.plan, layer, route);
          found.ns = ns;
          has_changed = true;
        }
  }
  void give_back(Found& found) const {
    for (const std::string& layer : free_) {
      if (!has_factors(found.plan.of(layer))) continue;
      const std::int64_t ns = ns_with(found.plan, layer, found.plan.other);
      if (ns > found.ns) continue;
      set(found.plan, layer, found.plan.other);
      found.ns = ns;
    }
  }

  // The reason why a layer has no alternative to its route.
  const char* why_no_other() const {
    if (has_mixed_devices())
      return "ranks on mixed devices can only exchange gradients";
    if (factor_routes().empty()) return "no other exchange is allowed";
    return "products over all workers' rows would take longer";
  }

  void explain() {
    const ExchangePlan& plan = chosen_.plan;
    std::vector<Route> routes = factor_routes();
    routes.insert(routes.begin(), plan.other);
    for (const std::string& layer : free_) {
      std::string text =
          fmt::format("{:.2f} ms per step", search_ms(chosen_.ns));
      for (const Route route : routes)
        if (route != plan.of(layer) && !hopeless_.contains({layer, route}))
          text += fmt::format(", {:.2f} with {}",
                              search_ms(ns_with(plan, layer, route)),
                              text_of(plan, route));
      if (text.find(',') == std::string::npos) text = why_no_other();
      chosen_.reasons[layer] = text;
    }
    for (const std::string& layer : cast_)
      chosen_.reasons[layer] =
          "its weight is cast, so only its gradient can be sent";
  }

  const Cluster& cluster_;
  const ExchangeChoices& choices_;
  std::vector<StepGraph> alone_;                  // by kind
  std::vector<std::vector<FactorLayer>> layers_;  // by kind
  std::vector<ExchangeOptions> options_;          // by kind
  std::vector<std::string> free_;                 // layers, from the top
  std::vector<std::string> cast_;
  std::set<std::pair<std::string, Route>> hopeless_;
  ChosenExchange chosen_;
};

}  // namespace

ExchangePlan spelled_out(const ExchangePlan& routes,
                         const StepProfile& profile) {
  ExchangePlan result;
  result.other = routes.bulk();
  result.rank = routes.rank;
  for (const std::string& layer : factor_layer_names(profile))
    if (has_factors(routes.of(layer))) result.layers[layer] = routes.of(layer);
  return result;
}

ChosenExchange choose_exchange(const Cluster& cluster,
                               const std::vector<PrecisionPlan>& plans,
                               const ExchangeChoices& choices) {
  ChosenExchange none;
  none.plan = cluster.exchange.routes;
  if (cluster.workers() == 1) return none;
  return ExchangeSearch(cluster, plans, choices).run();
}

}  // namespace sheaf::plan
