#include "sheaf/parallel/dad_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {
namespace {

// Messages below this share one; the latency is then a small part.
constexpr double kParcelBytes = 256 << 10;
// Messages of a parcel: its header and its bytes.
constexpr double kParcelMessages = 2;

// What a step would cost, by docs/dad.md's formulas. Seconds on the link and
// seconds of computing add up: what overlaps depends on the other layers.
class Prediction {
 public:
  Prediction(const ParameterUse& use, const ParameterUse* above,
             const RouteWishes& wishes, const LinkModel& link)
      : use_(use), above_(above), wishes_(wishes), link_(link) {}

  double gradient_ms() const {
    return 1e3 * (link_.latency_s +
                  2 * (ranks() - 1) / ranks() *
                      static_cast<double>(use_.elements * use_.width) /
                      link_.reduce_bytes_per_s) +
           product_ms(rows() / ranks());
  }
  double factors_ms() const {
    return gather_ms(rows() / ranks() * (in() + out())) + product_ms(rows());
  }
  // The layer above is multiplied once more, for the rows of all ranks.
  double edad_ms() const {
    return gather_ms(rows() / ranks() * in()) + product_ms(rows()) +
           2e3 * rows() * static_cast<double>(above_->elements) / link_.flops;
  }
  double low_rank_ms() const {
    const double own = rows() / ranks();
    const double kept = std::min<double>(wishes_.rank, own);
    // Two products of n x n with each factor, and what is done with those.
    const double more =
        4 * own * own * (width_in() + width_out()) + 50 * own * own * own;
    return gather_ms(kept * (width_in() + width_out())) +
           product_ms(ranks() * kept) + 1e3 * more / link_.flops;
  }

 private:
  double ranks() const { return link_.ranks; }
  double rows() const { return static_cast<double>(use_.rows); }
  double width_in() const { return use_.is_lookup ? 2. : double(use_.in); }
  double width_out() const { return static_cast<double>(use_.out); }
  double sent(double density) const {
    return wishes_.skips_zeros ? std::min(1.0, density + 1. / 32) : 1;
  }
  double in() const { return width_in() * sent(use_.density); }
  // Deltas are zero where the function above has cut its input off.
  double out() const {
    return width_out() * sent(above_ ? above_->density : 1);
  }
  double gather_ms(double own_words) const {
    return 1e3 * (kParcelMessages * link_.latency_s +
                  (ranks() - 1) * own_words * static_cast<double>(use_.width) /
                      link_.gather_bytes_per_s);
  }
  double product_ms(double of_rows) const {
    const double multiplies =
        use_.is_lookup ? width_out() : width_in() * width_out();
    return 2e3 * of_rows * multiplies / link_.flops;
  }

  const ParameterUse& use_;
  const ParameterUse* above_;
  const RouteWishes& wishes_;
  const LinkModel& link_;
};

// `above` is null where deltas cannot follow from those above.
RouteChoice by_time(const ParameterUse& use, const ParameterUse* above,
                    bool has_deltas_above, const RouteWishes& wishes,
                    const LinkModel& link) {
  const Prediction prediction(use, above, wishes, link);
  RouteChoice choice;
  choice.gradient_ms = prediction.gradient_ms();
  choice.factors_ms = prediction.factors_ms();
  choice.reason = fmt::format("by time: gradient {:.2f} ms, factors {:.2f} ms",
                              choice.gradient_ms, choice.factors_ms);
  double best = choice.gradient_ms;
  const auto try_route = [&](Route route, double ms) {
    if (ms < best) choice.route = route;
    best = std::min(best, ms);
  };
  try_route(Route::kDad, choice.factors_ms);
  if (above && has_deltas_above) {
    choice.edad_ms = prediction.edad_ms();
    choice.reason += fmt::format(", inputs alone {:.2f} ms", choice.edad_ms);
    try_route(Route::kEdad, choice.edad_ms);
  }
  if (wishes.allows_low_rank && !use.is_lookup) {
    choice.low_rank_ms = prediction.low_rank_ms();
    choice.reason += fmt::format(", low rank {:.2f} ms", choice.low_rank_ms);
    try_route(Route::kRankDad, choice.low_rank_ms);
  }
  return choice;
}

RouteChoice choose(const ParameterUse& use, const ParameterUse* above,
                   bool has_deltas_above, const RouteWishes& wishes,
                   const LinkModel& link) {
  if (use.rows == 0)
    return {Route::kGradient, "not a factor of a product that was seen"};
  if (use.has_other_use)
    return {Route::kGradient, "also used outside of products"};
  if (const auto found = wishes.by_name.find(use.name);
      found != wishes.by_name.end())
    return {found->second, "as told by name"};
  if (use.takes_data && wishes.first_layer_gradient)
    return {Route::kGradient, "first layer: its inputs are the data"};
  if (wishes.mode == DadMode::kAuto)
    return by_time(use, above, has_deltas_above, wishes, link);
  if (wishes.mode == DadMode::kRankDad && !use.is_lookup)
    return {Route::kRankDad, "rank-dad was asked for"};
  if (wishes.mode == DadMode::kEdad && !use.is_lookup)
    return {Route::kEdad, "edad was asked for"};
  return {Route::kDad, "dad was asked for"};
}

std::vector<std::vector<std::size_t>> parcels(
    const std::vector<std::size_t>& weights, const std::vector<double>& bytes) {
  std::vector<std::vector<std::size_t>> list;
  double filled = kParcelBytes;
  for (const std::size_t weight : weights) {
    if (filled >= kParcelBytes) {
      list.emplace_back();
      filled = 0;
    }
    list.back().push_back(weight);
    filled += bytes[weight];
  }
  return list;
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
                                       const RouteWishes& wishes,
                                       const LinkModel& link) {
  for (const auto& [name, route] : wishes.by_name)
    SHEAF_CHECK(std::any_of(uses.begin(), uses.end(),
                            [&](const auto& use) { return use.name == name; }),
                "a route is told for '", name,
                "', which is no parameter of the module");
  // From the top: deltas can follow from those above where these are known.
  std::vector<std::size_t> order(uses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return uses[a].order > uses[b].order;
  });
  std::vector<RouteChoice> choices(uses.size());
  for (const std::size_t i : order) {
    const auto above = static_cast<std::size_t>(uses[i].above);
    const bool has_above = uses[i].above >= 0;
    const Route route = has_above ? choices[above].route : Route::kGradient;
    choices[i] =
        choose(uses[i], has_above ? &uses[above] : nullptr,
               route == Route::kDad || route == Route::kEdad, wishes, link);
  }
  for (std::size_t i = 0; i < uses.size(); ++i)
    for (const std::size_t bias : uses[i].biases)
      if (choices[i].route == Route::kGradient)
        choices[bias].reason = "as its weight, " + uses[i].name;
  return choices;
}

FactorPlan plan_factors(const std::vector<ParameterUse>& uses,
                        const std::vector<RouteChoice>& choices, int ranks) {
  FactorPlan plan;
  std::vector<std::size_t> order;
  std::vector<double> in_bytes, out_bytes;
  plan.is_bias.resize(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const ParameterUse& use = uses[i];
    plan.routes.push_back(choices[i].route);
    plan.calls.push_back(use.calls);
    const double unit =
        static_cast<double>(use.rows) / ranks * static_cast<double>(use.width);
    in_bytes.push_back(unit * static_cast<double>(use.is_lookup ? 2 : use.in));
    out_bytes.push_back(unit * static_cast<double>(use.out));
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
  std::vector<std::size_t> early;
  for (const std::size_t i : order)
    if (choices[i].route != Route::kRankDad) early.push_back(i);
  plan.forward = parcels(early, in_bytes);
  std::reverse(order.begin(), order.end());
  plan.backward = parcels(order, out_bytes);
  return plan;
}

}  // namespace sheaf::parallel
