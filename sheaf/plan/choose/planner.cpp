#include "sheaf/plan/choose/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/choose/precision_search.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

constexpr Precision kHeld = Precision::kF32;

class Planner {
 public:
  Planner(const Cluster& cluster, const PlannerOptions& options)
      : cluster_(cluster), options_(options) {
    for (const WorkerKind& kind : cluster.kinds) {
      kind.recorded->check_layers(options.fixed);
      const TracedModel& model = statistics_of(kind);
      if (model.statistics.empty())
        indicators_.emplace_back();
      else
        indicators_.emplace_back(model, kind.recorded->graph(),
                                 options.indicator);
      chosen_.has_indicator &= !model.statistics.empty();
      precisions_.push_back(allowed(kind));
    }
  }

  std::vector<PrecisionPlan> highest() const {
    std::vector<PrecisionPlan> plans;
    for (At kind = 0; kind < cluster_.kinds.size(); ++kind)
      plans.push_back(uniform_plan(kind, precisions_[kind].front()));
    return plans;
  }

  ChosenPlan run() {
    try_uniform();
    start();
    recover();
    explain();
    chosen_.step = predict_step(cluster_, chosen_.plans, &known_);
    chosen_.indicator = indicator_of(chosen_.plans);
    prefer_uniform();
    if (!chosen_.has_indicator) forget_indicators();
    return std::move(chosen_);
  }

 private:
  void forget_indicators() {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    chosen_.indicator = chosen_.fastest_indicator = kUnknown;
    for (UniformStep& one : chosen_.uniform) one.indicator = kUnknown;
    for (TradeOff& one : chosen_.trade_offs) one.indicator = kUnknown;
  }

  // Statistics of any kind of worker serve, because the model is the same.
  const TracedModel& statistics_of(const WorkerKind& kind) const {
    for (const Precision one : kind.recorded->precisions())
      if (has_statistics(kind.recorded->of(one).model, options_.indicator))
        return kind.recorded->of(one).model;
    for (const WorkerKind& other : cluster_.kinds)
      if (&other != &kind &&
          has_statistics(other.recorded->model(), options_.indicator))
        return other.recorded->model();
    return kind.recorded->model();
  }
  std::vector<Precision> allowed(const WorkerKind& kind) const {
    std::vector<Precision> list;
    for (const Precision one : kind.recorded->precisions())
      if (options_.precisions.empty() ||
          std::find(options_.precisions.begin(), options_.precisions.end(),
                    one) != options_.precisions.end())
        list.push_back(one);
    SHEAF_CHECK(!list.empty(), "neither ", kind.recorded->base().file,
                " nor another trace of its device is in an allowed precision; "
                "record one with sheaf trace, or allow more precisions");
    return list;
  }

  PrecisionPlan uniform_plan(At kind, Precision precision) const {
    const auto& list = precisions_[kind];
    PrecisionPlan plan;
    plan.other = std::find(list.begin(), list.end(), precision) != list.end()
                     ? precision
                     : list.back();
    plan.layers = options_.fixed.layers;
    return plan;
  }
  void try_uniform() {
    for (const Precision one :
         {Precision::kF32, Precision::kTf32, Precision::kBf16, Precision::kF16,
          Precision::kInt8}) {
      bool is_known = false;
      for (const auto& list : precisions_)
        is_known |= std::find(list.begin(), list.end(), one) != list.end();
      if (!is_known) continue;
      std::vector<PrecisionPlan> plans;
      for (At kind = 0; kind < cluster_.kinds.size(); ++kind)
        plans.push_back(uniform_plan(kind, one));
      UniformStep uniform{one, predict_step(cluster_, plans, &known_),
                          indicator_of(plans), true, plans};
      uniform.fits = fits(uniform.step);
      if (uniform.fits && (best_ns_ == 0 || uniform.step.ns < best_ns_)) {
        best_ns_ = uniform.step.ns;
        chosen_.plans = plans;
      }
      chosen_.uniform.push_back(std::move(uniform));
    }
  }

  // Starts from the fastest plan of each kind by its own work, unless a uniform
  // plan is faster when threads and exchanges are taken into account.
  void start() {
    consider(fastest_plans(options_.fixed));
    if (const PrecisionPlan held = with_factors_held();
        held.layers.size() > options_.fixed.layers.size())
      try {
        consider(fastest_plans(held));
      } catch (const UsageError&) {
        // The memory does not suffice.
      }
    chosen_.fastest = predict_step(cluster_, chosen_.plans, &known_);
    chosen_.fastest_indicator = indicator_of(chosen_.plans);
    limit_ns_ = static_cast<std::int64_t>(
        static_cast<double>(chosen_.fastest.ns) * (1 + options_.slack));
    chosen_.trade_offs.push_back({"", 0, Precision::kF32, chosen_.fastest.ns,
                                  chosen_.fastest_indicator, true});
    for (At kind = 0; kind < cluster_.kinds.size(); ++kind)
      for (const std::string& layer : layers_of(kind)) {
        chosen_.plans[kind].layers[layer] = chosen_.plans[kind].of(layer);
        push(kind, layer);
      }
  }
  std::vector<PrecisionPlan> fastest_plans(const PrecisionPlan& fixed) const {
    std::vector<PrecisionPlan> plans;
    for (At kind = 0; kind < cluster_.kinds.size(); ++kind) {
      FastestOptions options;
      options.memory_limit = memory_limit(kind);
      options.precisions = precisions_[kind];
      options.fixed = fixed;
      const WorkerKind& worker = cluster_.kinds[kind];
      plans.push_back(
          fastest_plan(*worker.recorded, worker.casts, options).plan);
    }
    return plans;
  }
  void consider(const std::vector<PrecisionPlan>& plans) {
    const std::int64_t ns = predict_step(cluster_, plans, &known_).ns;
    if (best_ns_ != 0 && ns > best_ns_) return;
    best_ns_ = ns;
    chosen_.plans = plans;
  }
  // Keeps layers that send factors in f32: casting the weights prevents it.
  PrecisionPlan with_factors_held() const {
    PrecisionPlan held = options_.fixed;
    const bool is_possible =
        std::all_of(precisions_.begin(), precisions_.end(),
                    [](const auto& list) { return list.front() == kHeld; });
    if (cluster_.workers() == 1 || !is_possible) return held;
    const ExchangePlan& routes = cluster_.exchange.routes;
    for (const std::string& layer :
         factor_layer_names(cluster_.kinds[0].recorded->base()))
      if (has_factors(routes.of(layer))) held.layers.emplace(layer, kHeld);
    return held;
  }
  std::vector<std::string> layers_of(At kind) const {
    std::vector<std::string> names;
    for (const Slot& slot : cluster_.kinds[kind].recorded->graph().slots)
      if (!slot.layer.empty() && !options_.fixed.layers.contains(slot.layer) &&
          std::find(names.begin(), names.end(), slot.layer) == names.end())
        names.push_back(slot.layer);
    return names;
  }

  struct Candidate {
    double gain = 0;
    At kind = 0;
    std::string layer;
    Precision to = Precision::kF32;
    bool operator<(const Candidate& other) const { return gain < other.gain; }
  };
  // Adds the next higher precision of the layer as a candidate.
  void push(At kind, const std::string& layer) {
    const auto& list = precisions_[kind];
    const Precision now = chosen_.plans[kind].of(layer);
    const auto at = std::find(list.begin(), list.end(), now);
    if (at == list.begin() || at == list.end()) return;
    const Precision next = *std::prev(at);
    const double gain = weight(kind) * (indicators_[kind].of(layer, now) -
                                        indicators_[kind].of(layer, next));
    candidates_.push({gain, kind, layer, next});
  }
  double weight(At kind) const {
    return static_cast<double>(cluster_.kinds[kind].count) / cluster_.workers();
  }

  void recover() {
    double indicator = chosen_.fastest_indicator;
    while (!candidates_.empty()) {
      const Candidate one = candidates_.top();
      candidates_.pop();
      Precision& now = chosen_.plans[one.kind].layers[one.layer];
      const Precision before = now;
      now = one.to;
      const ClusterStep step = predict_step(cluster_, chosen_.plans, &known_);
      const bool is_kept = step.ns <= limit_ns_ && fits(step);
      chosen_.trade_offs.push_back({one.layer, one.kind, one.to, step.ns,
                                    indicator - one.gain, is_kept});
      if (is_kept) {
        indicator -= one.gain;
        push(one.kind, one.layer);
      } else {
        now = before;
        reasons_[{one.kind, one.layer}] = fmt::format(
            "{} would {}", to_string(one.to),
            fits(step)
                ? fmt::format(
                      "make the step {:.2f} % slower",
                      100.0 *
                          static_cast<double>(step.ns - chosen_.fastest.ns) /
                          static_cast<double>(chosen_.fastest.ns))
                : std::string("exceed the available memory"));
      }
    }
  }

  // Raising layers one by one may stop at casts that disappear if all layers
  // change.
  void prefer_uniform() {
    for (const UniformStep& one : chosen_.uniform) {
      if (!one.fits || one.step.ns > limit_ns_ ||
          one.indicator >= chosen_.indicator)
        continue;
      chosen_.plans = one.plans;
      chosen_.step = one.step;
      chosen_.indicator = one.indicator;
      for (At kind = 0; kind < cluster_.kinds.size(); ++kind)
        for (const std::string& layer : layers_of(kind)) {
          chosen_.plans[kind].layers[layer] = one.plans[kind].of(layer);
          chosen_.reasons[kind][layer] = "a uniform precision is not slower";
        }
    }
  }

  void explain() {
    chosen_.reasons.resize(cluster_.kinds.size());
    for (At kind = 0; kind < cluster_.kinds.size(); ++kind)
      for (const auto& [layer, precision] : chosen_.plans[kind].layers) {
        const auto found = reasons_.find({kind, layer});
        chosen_.reasons[kind][layer] =
            options_.fixed.layers.contains(layer) ? "fixed by the user"
            : found != reasons_.end()             ? found->second
            : precision == precisions_[kind].front()
                ? "highest precision, at no cost in time"
                : "fastest precision";
      }
  }

  // The smaller of the given limit and the device's memory; 0: no limit.
  std::int64_t memory_limit(At kind) const {
    const std::int64_t given = options_.memory_limit;
    const std::int64_t has = cluster_.kinds[kind].memory_bytes;
    return given == 0 || has == 0 ? std::max(given, has) : std::min(given, has);
  }
  bool fits(const ClusterStep& step) const {
    for (At kind = 0; kind < step.memory.size(); ++kind)
      if (memory_limit(kind) > 0 &&
          step.memory[kind].peak() > memory_limit(kind))
        return false;
    return true;
  }
  // Gradients are averaged over workers, and so are their variances.
  double indicator_of(const std::vector<PrecisionPlan>& plans) const {
    double sum = 0;
    for (At kind = 0; kind < plans.size(); ++kind)
      sum += weight(kind) * indicators_[kind].of(plans[kind]);
    return sum;
  }

  const Cluster& cluster_;
  const PlannerOptions& options_;
  std::vector<Indicator> indicators_;               // by kind
  std::vector<std::vector<Precision>> precisions_;  // by kind, highest first
  ChosenPlan chosen_;
  MixedSteps known_;
  std::int64_t best_ns_ = 0;
  std::int64_t limit_ns_ = 0;
  std::priority_queue<Candidate> candidates_;
  std::map<std::pair<At, std::string>, std::string> reasons_;
};

}  // namespace

ChosenPlan choose_plan(const Cluster& cluster, const PlannerOptions& options) {
  SHEAF_CHECK(!cluster.kinds.empty(), "no workers to plan for");
  if (!options.exchange || cluster.workers() == 1) {
    ChosenPlan chosen = Planner(cluster, options).run();
    const Recorded& recorded = *cluster.kinds[0].recorded;
    chosen.exchange.ns = chosen.step.ns;
    chosen.exchange.plan = spelled_out(
        routes_under(cluster.exchange.routes, recorded.graph(), chosen.plans),
        recorded.base());
    return chosen;
  }
  Cluster mine = cluster;
  ExchangeChoices first = *options.exchange;
  first.has_reasons = false;
  mine.exchange.routes =
      choose_exchange(cluster, Planner(cluster, options).highest(), first).plan;
  ChosenPlan chosen = Planner(mine, options).run();
  chosen.exchange = choose_exchange(mine, chosen.plans, *options.exchange);
  mine.exchange.routes = chosen.exchange.plan;
  chosen.step = predict_step(mine, chosen.plans);
  return chosen;
}

}  // namespace sheaf::plan
