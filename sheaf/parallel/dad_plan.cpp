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

std::size_t first_weight(const std::vector<ParameterUse>& uses) {
  std::size_t first = uses.size();
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (uses[i].rows > 0 && !uses[i].is_lookup &&
        (first == uses.size() || uses[i].order < uses[first].order))
      first = i;
  return first;
}

// Formulas: docs/dad.md. Seconds on the link and seconds of computing add up:
// what overlaps with what depends on the other layers.
void predict(const ParameterUse& use, const RouteWishes& wishes,
             const LinkModel& link, RouteChoice& choice) {
  const double ranks = link.ranks;
  const double rows = static_cast<double>(use.rows);
  const auto width = static_cast<double>(use.width);
  const auto in = static_cast<double>(use.is_lookup ? 0 : use.in);
  const auto out = static_cast<double>(use.out);
  const auto elements = static_cast<double>(use.elements);
  const double multiplies = use.is_lookup ? out : in * out;
  const auto ms = [&](double messages, double bytes, double operations) {
    return 1e3 * (messages * link.latency_s + bytes / link.gather_bytes_per_s +
                  operations / link.flops);
  };
  choice.gradient_ms = 1e3 * (link.latency_s +
                              2 * (ranks - 1) / ranks * elements * width /
                                  link.reduce_bytes_per_s +
                              2 * rows / ranks * multiplies / link.flops);
  choice.factors_ms =
      ms(kParcelMessages, (ranks - 1) / ranks * rows * (in + out) * width,
         2 * rows * multiplies);
  const double kept = std::min<double>(wishes.rank, rows / ranks);
  // Two products of n x n with each factor, in f64.
  const double own = rows / ranks;
  choice.low_rank_ms =
      ms(kParcelMessages, (ranks - 1) * kept * (in + out) * width,
         2 * ranks * kept * multiplies + 4 * own * own * (in + out) +
             50 * own * own * own);
}

RouteChoice by_time(const ParameterUse& use, const RouteWishes& wishes,
                    const LinkModel& link) {
  RouteChoice choice;
  predict(use, wishes, link, choice);
  choice.route =
      choice.factors_ms < choice.gradient_ms ? Route::kDad : Route::kGradient;
  const double best = std::min(choice.factors_ms, choice.gradient_ms);
  if (wishes.allows_low_rank && !use.is_lookup && choice.low_rank_ms < best)
    choice.route = Route::kRankDad;
  choice.reason = fmt::format("by time: gradient {:.2f} ms, factors {:.2f} ms",
                              choice.gradient_ms, choice.factors_ms);
  if (wishes.allows_low_rank)
    choice.reason += fmt::format(", low rank {:.2f} ms", choice.low_rank_ms);
  return choice;
}

RouteChoice choose(const ParameterUse& use, const RouteWishes& wishes,
                   const LinkModel& link, bool is_first) {
  if (use.rows == 0)
    return {Route::kGradient, "not a factor of a product that was seen"};
  if (use.has_other_use)
    return {Route::kGradient, "also used outside of products"};
  if (const auto found = wishes.by_name.find(use.name);
      found != wishes.by_name.end())
    return {found->second, "as told by name"};
  if (is_first && wishes.first_layer_gradient)
    return {Route::kGradient, "first layer: its inputs are the data"};
  if (wishes.mode == DadMode::kAuto) return by_time(use, wishes, link);
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
  const std::size_t first = first_weight(uses);
  std::vector<RouteChoice> choices;
  for (std::size_t i = 0; i < uses.size(); ++i)
    choices.push_back(choose(uses[i], wishes, link, i == first));
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
