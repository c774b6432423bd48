#include "sheaf/plan/predict/cast_cost.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

using enum Precision;

TEST(CastCost, IsALine) {
  const CastCost cost{.ns_per_element = 0.5, .ns = 2000};
  EXPECT_EQ(cost.of(0), 2000);
  EXPECT_EQ(cost.of(1000), 2500);
}

TEST(CastCost, IsFittedRobustlyAndNeverNegative) {
  std::vector<CastSample> samples;
  for (int i = 1; i <= 20; ++i)
    samples.push_back({i * 1e5, 0.03 * i * 1e5 + 1500});
  samples.push_back({5e5, 1e9});  // an outlier
  const CastCost cost = fit_cast(samples);
  EXPECT_NEAR(cost.ns_per_element, 0.03, 1e-4);
  EXPECT_NEAR(cost.ns, 1500, 50);
  const CastCost below = fit_cast({{1e5, 1000}, {2e5, 2500}, {4e5, 5600}});
  EXPECT_GE(below.ns, 0);
}

void expect_cost(const CastCost& cost, double ns_per_element, double ns) {
  EXPECT_DOUBLE_EQ(cost.ns_per_element, ns_per_element);
  EXPECT_DOUBLE_EQ(cost.ns, ns);
}

TEST(CastCosts, WithoutMeasurementsBytesTakeTypicalTimes) {
  CastCosts costs;
  expect_cost(costs.of(kF32, kBf16), 0.006, 2000);
  expect_cost(costs.of(kF16, kInt8), 0.003, 2000);
  costs.has_device = false;
  expect_cost(costs.of(kF32, kF16), 0.6, 2000);
}

TEST(CastCosts, MeasuredPairsAreUsed) {
  CastCosts costs;
  costs.pairs[{kF32, kBf16}] = {1, 10};
  costs.pairs[{kBf16, kF32}] = {3, 30};
  expect_cost(costs.of(kF32, kBf16), 1, 10);
  expect_cost(costs.of(kBf16, kF32), 3, 30);
  // A cast between two-byte types costs as much as one to f32.
  expect_cost(costs.of(kBf16, kF16), 3, 30);
  // Others are scaled by bytes from the first pair, f32 to bf16: 6 bytes.
  expect_cost(costs.of(kF32, kF16), 1, 10);
  expect_cost(costs.of(kF16, kBf16), 4.0 / 6, 10);
  expect_cost(costs.of(kBf16, kInt8), 3.0 / 6, 10);
}

}  // namespace
}  // namespace sheaf::plan
