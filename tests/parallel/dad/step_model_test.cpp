#include "sheaf/parallel/dad/step_model.hpp"

#include <gtest/gtest.h>

#include "sheaf/parallel/dad/dad_plan.hpp"

namespace sheaf::parallel {
namespace {

// Two layers of 1000 x 1000, 100 rows on each of two ranks: 0.2 Gflop per
// product, 0.4 MB per factor, 4 MB per gradient.
std::vector<ParameterUse> two_layers() {
  std::vector<ParameterUse> uses(2);
  for (std::size_t i = 0; i < 2; ++i) {
    uses[i].name = std::to_string(i);
    uses[i].in = uses[i].out = 1000;
    uses[i].elements = 1000 * 1000;
    uses[i].rows = 200;
    uses[i].calls = 1;
    uses[i].order = static_cast<std::int64_t>(i);
  }
  uses[0].takes_data = true;
  uses[0].above = 1;
  return uses;
}

LinkModel link_of(double bytes_per_s, bool is_overlapping) {
  return {.ranks = 2,
          .latency_s = 0,
          .gather_bytes_per_s = bytes_per_s,
          .reduce_bytes_per_s = bytes_per_s,
          .flops = 2e11,  // 1 ms per product of a rank's rows
          .weight_bytes_per_s = 1e18,
          .is_overlapping = is_overlapping};
}

double step_ms(Route route, double bytes_per_s, bool is_overlapping) {
  const auto uses = two_layers();
  const LinkModel link = link_of(bytes_per_s, is_overlapping);
  std::vector<RouteChoice> choices(2);
  choices[0].route = route;
  choices[1].route = route == Route::kEdad ? Route::kDad : route;
  return StepModel(uses, link, 4, false)
      .step_ms(plan_factors(uses, choices, 2));
}

// Forward takes 2 ms, deltas 1 ms (the data need none).
constexpr double kBoth = 3;

TEST(StepModel, WithoutALinkProductsAddUp) {
  EXPECT_NEAR(step_ms(Route::kGradient, 1e15, true), kBoth + 2, 1e-3);
  EXPECT_NEAR(step_ms(Route::kDad, 1e15, true), kBoth + 4, 1e-3);
  // Plus the layer above once more, for all rows.
  EXPECT_NEAR(step_ms(Route::kEdad, 1e15, true), kBoth + 4 + 2, 1e-3);
}

TEST(StepModel, WithoutOverlapTimesAddUp) {
  // 4 MB each in 10 ms; 2 (S - 1) / S times the bytes in total.
  EXPECT_NEAR(step_ms(Route::kGradient, 4e8, false), kBoth + 2 + 20, 1e-3);
  // Four factors of 1 ms each.
  EXPECT_NEAR(step_ms(Route::kDad, 4e8, false), kBoth + 4 + 4, 1e-3);
  EXPECT_NEAR(step_ms(Route::kEdad, 4e8, false), kBoth + 6 + 3, 1e-3);
}

// The first gradient is sent after 3 ms; the second waits for the link.
TEST(StepModel, OverlapHidesWhatFitsBehindComputing) {
  EXPECT_NEAR(step_ms(Route::kGradient, 4e8, true), 3 + 20, 1e-3);
  // Inputs have arrived after 2 and 3 ms, deltas after 4 and 5 ms; the products
  // start after 4 ms.
  EXPECT_NEAR(step_ms(Route::kDad, 4e8, true), 4 + 4, 1e-3);
  EXPECT_LT(step_ms(Route::kDad, 4e8, true), step_ms(Route::kDad, 4e8, false));
  // A slow link alone determines the time.
  EXPECT_NEAR(step_ms(Route::kDad, 4e5, true), 1 + 4000 + 2, 1e-3);
  EXPECT_NEAR(step_ms(Route::kEdad, 4e5, true), 1 + 3000 + 6, 1e-3);
}

TEST(StepModel, FewRowsTakeAsLongAsTheirWeight) {
  const auto uses = two_layers();
  LinkModel link = link_of(1e15, true);
  link.flops = 1e18;
  link.weight_bytes_per_s = 4e9;  // 1 ms per weight
  std::vector<RouteChoice> choices(2);
  for (RouteChoice& choice : choices) choice.route = Route::kDad;
  EXPECT_NEAR(
      StepModel(uses, link, 4, false).step_ms(plan_factors(uses, choices, 2)),
      kBoth + 2, 1e-3);
}

}  // namespace
}  // namespace sheaf::parallel
