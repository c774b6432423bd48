#include "sheaf/plan/choose/precision_search.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/plan/predict/side_work.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// Resolution of memory, as a fraction of the limit.
constexpr double kMemorySteps = 2000;

// A path to a state: its time, memory and predecessor.
struct Partial {
  double ns = 0;
  double bytes = 0;
  std::int32_t before = kNone;  // path of the previous slot
  Precision choice = Precision::kF32;
};

// Types of the results that later slots need, one character each, followed by
// the precisions of layers that are called again.
using State = std::string;

class Search {
 public:
  Search(const Recorded& recorded, const CastCosts& casts,
         const FastestOptions& options)
      : recorded_(recorded),
        slots_(recorded.graph().slots),
        casts_(casts),
        options_(options),
        work_(recorded) {
    last_use_.assign(slots_.size(), -1);
    for (At i = 0; i < slots_.size(); ++i)
      for (const SlotInput& input : slots_[i].inputs)
        last_use_[static_cast<At>(input.slot)] = static_cast<std::int32_t>(i);
    for (At i = 0; i < slots_.size(); ++i)
      if (!slots_[i].layer.empty()) last_call_[slots_[i].layer] = i;
  }

  FastestPlan run(double byte_limit) {
    byte_limit_ = byte_limit;
    is_exact_ = true;
    live_.clear();
    again_.clear();
    trail_.clear();
    Front front;
    front[""] = {Partial{}};
    trail_.push_back({Partial{}});
    front_index_.clear();
    front_index_[""] = {0};
    for (At slot = 0; slot < slots_.size(); ++slot) front = pass(front, slot);
    return best_of(front);
  }

 private:
  using Front = std::unordered_map<State, std::vector<Partial>>;

  Front pass(const Front& front, At slot) {
    Front next;
    const std::vector<At> kept = kept_after(slot);
    const std::vector<std::string> again = again_after(slot);
    for (const auto& [state, partials] : front) {
      const auto& numbers = front_index_.at(state);
      for (const Precision choice : choices(state, slot)) {
        const Step step = step_of(state, slot, choice);
        const State to = state_after(state, slot, step.result, kept) +
                         choices_after(state, slot, choice, again);
        for (At i = 0; i < partials.size(); ++i)
          next[to].push_back({partials[i].ns + step.ns,
                              partials[i].bytes + step.bytes, numbers[i],
                              choice});
      }
    }
    live_ = kept;
    again_ = again;
    keep_best(next);
    return next;
  }

  std::vector<Precision> choices(const State& state, At slot) const {
    const std::string& layer = slots_[slot].layer;
    // Its type follows from its inputs.
    if (layer.empty()) return {Precision::kF32};
    if (const auto chosen = chosen_before(state, layer)) return {*chosen};
    const auto fixed = options_.fixed.layers.find(layer);
    if (fixed != options_.fixed.layers.end()) return {fixed->second};
    return options_.precisions;
  }

  struct Step {
    double ns = 0;
    double bytes = 0;
    Precision result = Precision::kF32;
  };
  Step step_of(const State& state, At slot, Precision choice) const {
    const Slot& one = slots_[slot];
    const SlotTypes types =
        types_of(recorded_.graph(), slot, recorded_.is_f32_only()[slot], choice,
                 [&](At from) { return type_in(state, from); });
    Step step;
    step.result = types.result;
    for (At i = 0; i < types.casts.size(); ++i) {
      const SlotTypes::Cast& cast = types.casts[i];
      if (!cast.is_needed) continue;
      const double elements = one.inputs[i].elements;
      step.ns += cast_ns(cast.from, cast.to, elements) +
                 cast_ns(cast.to, cast.from, elements);
      step.bytes += elements * bytes_of(cast.to);
    }
    const StepProfile& source =
        one.layer.empty() ? recorded_.source_of(slot, types, options_.fixed)
                          : recorded_.of(choice);
    step.ns += work_.ns(source, slot);
    step.bytes += work_.kept_bytes(source, slot);
    if (!takes(source, slot, types)) step.ns += promotions_ns(one, types);
    return step;
  }
  // Cost of mixed input types, as in mix_step(): forward within the operator,
  // backward as casts.
  double promotions_ns(const Slot& slot, const SlotTypes& types) const {
    double ns = 0;
    for (At i = 0; i < types.casts.size(); ++i) {
      const SlotTypes::Cast& cast = types.casts[i];
      if (!cast.is_promoted) continue;
      const double elements = slot.inputs[i].elements;
      ns += casts_.of(cast.from, cast.to).ns_per_element * elements / 2 +
            cast_ns(cast.to, cast.from, elements);
    }
    return ns;
  }
  double cast_ns(Precision from, Precision to, double elements) const {
    return casts_.of(from, to).of(elements) +
           (casts_.has_device ? kCastGapNs : 0);
  }

  Precision type_in(const State& state, At slot) const {
    const auto found = std::lower_bound(live_.begin(), live_.end(), slot);
    return static_cast<Precision>(
        state[static_cast<At>(found - live_.begin())]);
  }
  // A layer has one precision for all its calls.
  std::optional<Precision> chosen_before(const State& state,
                                         const std::string& layer) const {
    const auto found = std::find(again_.begin(), again_.end(), layer);
    if (found == again_.end()) return std::nullopt;
    return static_cast<Precision>(
        state[live_.size() + static_cast<At>(found - again_.begin())]);
  }
  std::vector<std::string> again_after(At slot) const {
    std::vector<std::string> again;
    const std::string& here = slots_[slot].layer;
    for (const std::string& one : again_)
      if (last_call_.at(one) > slot) again.push_back(one);
    if (!here.empty() && last_call_.at(here) > slot &&
        std::find(again.begin(), again.end(), here) == again.end())
      again.push_back(here);
    return again;
  }
  State choices_after(const State& state, At slot, Precision choice,
                      const std::vector<std::string>& again) const {
    State next;
    for (const std::string& one : again)
      next += static_cast<char>(
          one == slots_[slot].layer ? choice : *chosen_before(state, one));
    return next;
  }

  std::vector<At> kept_after(At slot) const {
    std::vector<At> kept;
    for (const At one : live_)
      if (last_use_[one] > static_cast<std::int32_t>(slot)) kept.push_back(one);
    if (last_use_[slot] > static_cast<std::int32_t>(slot)) kept.push_back(slot);
    return kept;
  }
  State state_after(const State& state, At slot, Precision result,
                    const std::vector<At>& kept) const {
    State next;
    for (const At one : kept)
      next += static_cast<char>(one == slot ? result : type_in(state, one));
    return next;
  }

  // Keeps, for each state, the paths that no other beats in both time and
  // memory.
  void keep_best(Front& front) {
    front_index_.clear();
    trail_.emplace_back();
    if (front.size() > options_.most_states) drop_slowest(front);
    for (auto& [state, partials] : front) {
      std::sort(partials.begin(), partials.end(),
                [](const Partial& a, const Partial& b) {
                  return a.ns != b.ns ? a.ns < b.ns : a.bytes < b.bytes;
                });
      std::vector<Partial> best;
      const double unit = byte_limit_ / kMemorySteps;
      double least = std::numeric_limits<double>::infinity();
      for (const Partial& partial : partials) {
        if (byte_limit_ > 0 && partial.bytes > byte_limit_) continue;
        if (!best.empty() && (byte_limit_ <= 0 || partial.bytes > least - unit))
          continue;
        least = partial.bytes;
        best.push_back(partial);
      }
      partials = std::move(best);
      auto& numbers = front_index_[state];
      for (const Partial& partial : partials) {
        numbers.push_back(static_cast<std::int32_t>(trail_.back().size()));
        trail_.back().push_back(partial);
      }
    }
    std::erase_if(front, [](const auto& one) { return one.second.empty(); });
  }
  // Keeps the states with the fastest partial plans; of equally fast ones
  // those that sort first, so that the result is deterministic.
  void drop_slowest(Front& front) {
    is_exact_ = false;
    std::vector<std::pair<double, State>> order;
    for (const auto& [state, partials] : front) {
      double ns = std::numeric_limits<double>::infinity();
      for (const Partial& partial : partials) ns = std::min(ns, partial.ns);
      order.emplace_back(ns, state);
    }
    const auto dropped =
        order.begin() + static_cast<long>(options_.most_states);
    std::nth_element(order.begin(), dropped, order.end());
    for (auto one = dropped; one != order.end(); ++one)
      front.erase(one->second);
  }

  FastestPlan best_of(const Front& front) const {
    FastestPlan result;
    result.is_exact = is_exact_;
    const Partial* best = nullptr;
    for (const auto& [state, partials] : front)
      for (const Partial& partial : partials)
        if (best == nullptr || partial.ns < best->ns) best = &partial;
    if (best == nullptr) {
      result.work_ns = -1;  // no path fits
      return result;
    }
    result.work_ns = best->ns;
    result.plan.other = options_.fixed.other;
    Partial partial = *best;
    for (At slot = slots_.size(); slot-- > 0;) {
      if (!slots_[slot].layer.empty())
        result.plan.layers[slots_[slot].layer] = partial.choice;
      partial = trail_[slot][static_cast<At>(partial.before)];
    }
    return result;
  }

  const Recorded& recorded_;
  const std::vector<Slot>& slots_;
  const CastCosts& casts_;
  const FastestOptions& options_;
  const SideWork work_;
  std::vector<std::int32_t> last_use_;  // by slot
  double byte_limit_ = 0;
  bool is_exact_ = true;
  std::vector<At> live_;            // slots whose types are in the state
  std::vector<std::string> again_;  // layers whose precisions are in the state
  std::unordered_map<std::string, At> last_call_;  // slot, by layer
  // By slot, starting before the first.
  std::vector<std::vector<Partial>> trail_;
  std::unordered_map<State, std::vector<std::int32_t>> front_index_;
};

// The peak includes more than the results kept by layers. The rest hardly
// depends on the plan, so the limit for kept results is derived from a first
// plan.
FastestPlan fitting_plan(const Recorded& recorded, Search& search,
                         const FastestOptions& options) {
  const SideWork work(recorded);
  FastestPlan best = search.run(0);
  std::int64_t peak = mix_memory(recorded, best.plan).peak();
  double limit = 0;
  std::int64_t least = peak;
  for (int turn = 0; turn < 8 && peak > options.memory_limit; ++turn) {
    const double kept = work.kept_bytes(recorded, best.plan);
    limit = (limit > 0 ? std::min(limit, kept) : kept) -
            static_cast<double>(peak - options.memory_limit);
    if (limit <= 0) break;
    const FastestPlan next = search.run(limit);
    if (next.work_ns < 0) break;
    best = next;
    peak = mix_memory(recorded, best.plan).peak();
    least = std::min(least, peak);
  }
  SHEAF_CHECK(peak <= options.memory_limit, "no plan fits into ",
              format_bytes(static_cast<std::uint64_t>(options.memory_limit)),
              "; the smallest plan found needs ",
              format_bytes(static_cast<std::uint64_t>(least)),
              "; allow lower precisions, a smaller batch or more memory");
  return best;
}

}  // namespace

FastestPlan fastest_plan(const Recorded& recorded, const CastCosts& casts,
                         const FastestOptions& options) {
  SHEAF_CHECK(!options.precisions.empty(), "no precisions to choose from");
  Search search(recorded, casts, options);
  if (options.memory_limit > 0) return fitting_plan(recorded, search, options);
  return search.run(0);
}

}  // namespace sheaf::plan
