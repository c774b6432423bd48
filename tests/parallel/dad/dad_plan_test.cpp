#include "sheaf/parallel/dad/dad_plan.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {
namespace {

// The MLP 784-2048-1024-512-256-10, with `rows` over all ranks.
std::vector<ParameterUse> mlp(std::int64_t rows) {
  const std::vector<std::int64_t> sizes{784, 2048, 1024, 512, 256, 10};
  std::vector<ParameterUse> uses;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    ParameterUse weight;
    weight.name = std::to_string(i) + ".weight";
    weight.in = sizes[i];
    weight.out = sizes[i + 1];
    weight.elements = weight.in * weight.out;
    weight.rows = rows;
    weight.calls = 1;
    weight.order = static_cast<std::int64_t>(i);
    weight.takes_data = i == 0;
    weight.above =
        i + 2 < sizes.size() ? static_cast<std::int64_t>(2 * i + 2) : -1;
    weight.biases = {2 * i + 1};
    ParameterUse bias;
    bias.name = std::to_string(i) + ".bias";
    bias.elements = sizes[i + 1];
    uses.push_back(weight);
    uses.push_back(bias);
  }
  return uses;
}

std::vector<Route> weights_of(const std::vector<RouteChoice>& choices) {
  std::vector<Route> routes;
  for (std::size_t i = 0; i < choices.size(); i += 2)
    routes.push_back(choices[i].route);
  return routes;
}

// A link so slow that only bytes matter.
LinkModel slow_link(int ranks) {
  return {.ranks = ranks,
          .latency_s = 0,
          .gather_bytes_per_s = 1e3,
          .reduce_bytes_per_s = 1e3,
          .flops = 1e15,
          .weight_bytes_per_s = 1e18};
}

constexpr Route kG = Route::kGradient;
constexpr Route kD = Route::kDad;

// Factors are smaller if N < 2 in out / (in + out): 1134, 1365, 683, 341, 19.
TEST(DadPlan, BytesDecideOnASlowLink) {
  auto uses = mlp(0);
  const auto routes = [&](std::int64_t rows) {
    for (ParameterUse& use : uses) {
      use.above = -1;  // exact factors only
      if (use.in > 0) use.rows = rows;
    }
    return weights_of(
        choose_routes(uses, {.mode = DadMode::kAuto}, slow_link(2)));
  };
  EXPECT_EQ(routes(18), (std::vector{kD, kD, kD, kD, kD}));
  EXPECT_EQ(routes(20), (std::vector{kD, kD, kD, kD, kG}));
  EXPECT_EQ(routes(345), (std::vector{kD, kD, kD, kG, kG}));
  EXPECT_EQ(routes(690), (std::vector{kD, kD, kG, kG, kG}));
  EXPECT_EQ(routes(1200), (std::vector{kG, kD, kG, kG, kG}));
  EXPECT_EQ(routes(1400), (std::vector{kG, kG, kG, kG, kG}));
}

TEST(DadPlan, ComputingDecidesOnAFastLink) {
  const LinkModel fast{.ranks = 2,
                       .latency_s = 1e-6,
                       .gather_bytes_per_s = 1e12,
                       .reduce_bytes_per_s = 1e12,
                       .flops = 1e9};
  EXPECT_EQ(weights_of(choose_routes(mlp(64), {.mode = DadMode::kAuto}, fast)),
            std::vector<Route>(5, kG));
}

TEST(DadPlan, DeltasFollowWhereThoseAboveAreKnown) {
  const auto routes = weights_of(
      choose_routes(mlp(18), {.mode = DadMode::kAuto}, slow_link(2)));
  EXPECT_EQ(routes, (std::vector{Route::kEdad, Route::kEdad, Route::kEdad,
                                 Route::kEdad, kD}));
  // With 20 rows, the gradient of the last layer would be smaller than its
  // factors, but then the layer below would have to send its deltas.
  EXPECT_EQ(weights_of(
                choose_routes(mlp(20), {.mode = DadMode::kAuto}, slow_link(2))),
            routes);
  const auto fixed = weights_of(choose_routes(
      mlp(20), {.mode = DadMode::kAuto, .by_name = {{"4.weight", kG}}},
      slow_link(2)));
  EXPECT_EQ(fixed[3], kD);
  EXPECT_EQ(fixed[2], Route::kEdad);
}

TEST(DadPlan, NamesGoBeforeAll) {
  const auto choices =
      choose_routes(mlp(8),
                    {.first_layer_gradient = true,
                     .by_name = {{"2.weight", Route::kRankDad}}},
                    slow_link(2));
  EXPECT_EQ(weights_of(choices),
            (std::vector{kG, kD, Route::kRankDad, kD, kD}));
  EXPECT_THROW(choose_routes(mlp(8), {.by_name = {{"x", kG}}}, slow_link(2)),
               UsageError);
}

TEST(DadPlan, ParcelsHoldAllInOrder) {
  const auto uses = mlp(64);
  const auto choices = choose_routes(uses, {}, slow_link(2));
  const FactorPlan plan = plan_factors(uses, choices, 2);
  std::vector<std::size_t> forward, backward;
  for (const auto& parcel : plan.forward)
    forward.insert(forward.end(), parcel.begin(), parcel.end());
  for (const auto& parcel : plan.backward)
    backward.insert(backward.end(), parcel.begin(), parcel.end());
  EXPECT_EQ(forward, (std::vector<std::size_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(backward, (std::vector<std::size_t>{8, 6, 4, 2, 0}));
  EXPECT_LT(plan.forward.size(), 5) << "small ones share a parcel";
  for (std::size_t i = 1; i < uses.size(); i += 2) EXPECT_TRUE(plan.is_bias[i]);
}

TEST(DadPlan, PlansThatAreCloseAreCandidates) {
  const auto names = [](const LinkModel& link) {
    std::string text;
    for (const auto& one :
         route_candidates(mlp(64), {.mode = DadMode::kAuto}, link))
      text += one.name + "; ";
    return text;
  };
  // If bytes dominate, every other route takes at least twice as long.
  EXPECT_EQ(names(slow_link(2)), "predicted; ");
  EXPECT_EQ(names({.ranks = 2, .latency_s = 1}), "predicted; edad for all; ");
}

// A plan overrides the mode. Routes set by name and the rule for the first
// layer override the plan.
TEST(DadPlan, APlanIsBetweenNamesAndMode) {
  const RouteSettings settings{.mode = DadMode::kAuto,
                               .first_layer_gradient = true,
                               .by_name = {{"1.weight", Route::kRankDad}},
                               .planned = {{"0.weight", kD},
                                           {"1.weight", kD},
                                           {"2.weight", kG},
                                           {"3.weight", Route::kEdad}}};
  const auto choices = choose_routes(mlp(8), settings, slow_link(2));
  const auto routes = weights_of(choices);
  EXPECT_EQ(routes[0], kG);
  EXPECT_EQ(routes[1], Route::kRankDad);
  EXPECT_EQ(routes[2], kG);
  EXPECT_EQ(routes[3], Route::kEdad);
  EXPECT_EQ(choices[4].reason, "from the plan");
  EXPECT_THROW(choose_routes(mlp(8), {.planned = {{"x", kG}}}, slow_link(2)),
               UsageError);
}

}  // namespace
}  // namespace sheaf::parallel
