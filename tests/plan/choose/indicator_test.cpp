#include "sheaf/plan/choose/indicator.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/predict/mixed_step.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

Recorded recorded_in_f32() {
  std::vector<StepProfile> profiles;
  profiles.push_back(read_profile(
      ModelTrace(small_model(), uniform(Precision::kF32), true).write()));
  return Recorded(std::move(profiles));
}

TEST(Indicator, GrowsAsPrecisionFalls) {
  const Recorded recorded = recorded_in_f32();
  for (const auto kind : {IndicatorKind::kVariance, IndicatorKind::kPublished,
                          IndicatorKind::kWeight}) {
    const Indicator indicator(recorded.model(), recorded.graph(), kind);
    EXPECT_EQ(indicator.of("conv1", Precision::kF32), 0);
    EXPECT_GT(indicator.of("conv1", Precision::kF16), 0);
    EXPECT_GT(indicator.of("conv1", Precision::kBf16),
              indicator.of("conv1", Precision::kF16));
  }
  expect_throws<UsageError>(
      [&] {
        Indicator(recorded.model(), recorded.graph(), IndicatorKind::kHessian);
      },
      {"sheaf trace CONFIG --curvature"});
  expect_throws<UsageError>([] { parse_indicator("other"); }, {"variance"});
}

// The published formula computed by hand from conv1's statistics in
// model_trace.hpp.
TEST(Indicator, HasThePublishedValues) {
  const Recorded recorded = recorded_in_f32();
  const Indicator indicator(recorded.model(), recorded.graph(),
                            IndicatorKind::kPublished);
  const double n_w = std::sqrt(300.0), n_v = std::sqrt(1000.0), n_g = 1;
  const double s_v = 4 / 127.0, s_w = 1 / 127.0;
  const double forward = (n_w * s_v * s_v * 1000 + n_v * s_w * s_w * 100) / 6;
  // frexp(sqrt(sqrt(1000) / 1000)) gives the exponent -2.
  const double backward =
      (n_g * s_v * s_v * 1000 + n_v * 16 * std::pow(2, -18) * 1000) / 6;
  EXPECT_NEAR(indicator.of("conv1", Precision::kInt8),
              4 * (3 - 1) * forward + 1 * backward, 1e-9);
}

// Half the trace times the variance of a rounded weight: the root of 300 / 100
// is 1.7, between 1 and 2, so steps are 2 / 2^9 in f16.
TEST(Indicator, OfCurvatureIsWhatRoundingAddsToTheLoss) {
  const Recorded recorded = recorded_in_f32();
  TracedModel model = recorded.model();
  EXPECT_FALSE(has_statistics(model, IndicatorKind::kHessian));
  model.statistics.at("conv1").curvature = 12;
  model.statistics.at("conv2").curvature = -3;
  EXPECT_TRUE(has_statistics(model, IndicatorKind::kHessian));
  const Indicator indicator(model, recorded.graph(), IndicatorKind::kHessian);
  const double step = std::ldexp(2.0, -9);
  EXPECT_NEAR(indicator.of("conv1", Precision::kF16), 12 * step * step / 6 / 2,
              1e-12);
  EXPECT_GT(indicator.of("conv2", Precision::kF16), 0);
  EXPECT_EQ(indicator.of("fc", Precision::kF16), 0);
}

// Statistics are already sums over the calls of a layer.
TEST(Indicator, CountsALayerOnceHoweverOftenItIsCalled) {
  const Recorded recorded = recorded_in_f32();
  ModelGraph graph = recorded.graph();
  const Indicator once(recorded.model(), graph, IndicatorKind::kWeight);
  for (const Slot& slot : std::vector<Slot>(graph.slots))
    if (slot.layer == "conv2") graph.slots.push_back(slot);
  graph.slots.emplace_back().layer = "matmul#0";
  const Indicator twice(recorded.model(), graph, IndicatorKind::kWeight);
  double sum = 0;
  for (const char* layer : {"conv1", "conv2", "fc"}) {
    sum += once.of(layer, Precision::kBf16);
    EXPECT_DOUBLE_EQ(twice.of(layer, Precision::kBf16),
                     once.of(layer, Precision::kBf16));
  }
  EXPECT_NEAR(twice.of("matmul#0", Precision::kBf16), sum / 3, 1e-15);
}

}  // namespace
}  // namespace sheaf::plan
