#include "sheaf/plan/predict/mixed_step.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/graph/step_replay.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

Recorded record(const std::vector<Precision>& precisions, double host_us = 10) {
  std::vector<StepProfile> profiles;
  for (const Precision one : precisions)
    profiles.push_back(read_profile(
        ModelTrace(small_model(), uniform(one), true, host_us).write()));
  return Recorded(std::move(profiles));
}

double replayed(const StepGraph& graph) {
  Replay replay;
  replay.run(graph);
  return 1e-3 * static_cast<double>(replay.run(graph));
}

PrecisionPlan plan_of(std::map<std::string, Precision> layers) {
  PrecisionPlan plan;
  plan.layers = std::move(layers);
  return plan;
}

TEST(ModelGraph, HasSlotsWithoutCasts) {
  const auto profile = read_profile(
      ModelTrace(small_model(), uniform(Precision::kBf16), true).write());
  const auto& slots = profile.graph.slots;
  ASSERT_EQ(slots.size(), 6u);
  EXPECT_EQ(slots[0].name, "conv1");
  EXPECT_EQ(slots[1].name, "aten::relu#0");
  EXPECT_EQ(slots[3].inputs.size(), 2u);
  EXPECT_EQ(slots[4].type, Precision::kF32);
  EXPECT_TRUE(slots[4].has_cast);
  EXPECT_EQ(slots[5].depth, 3);  // along the longer path
  EXPECT_EQ(profile.graph.depth, 3);
  EXPECT_EQ(slots[5].weight_elements, 500000);
  EXPECT_NE(dot_of(profile.graph).find("n1 -> n3"), std::string::npos);
  EXPECT_NE(json_of(profile.graph).find("\"conv2\""), std::string::npos);
}

TEST(TypeFlow, FollowsProducersAndKeepsWhatIsF32Only) {
  const Recorded recorded = record({Precision::kF32, Precision::kBf16});
  EXPECT_EQ(recorded.is_f32_only(),
            (std::vector<bool>{false, false, false, false, true, false}));
  const auto types =
      recorded.types_under(plan_of({{"conv1", Precision::kBf16}}));
  EXPECT_EQ(types[1].result, Precision::kBf16);
  EXPECT_TRUE(types[2].casts[0].is_needed);
  EXPECT_EQ(types[3].result, Precision::kF32);  // promoted
  EXPECT_FALSE(types[4].casts[0].is_needed);
}

// Every plan of three layers and three precisions: the predicted step and
// memory equal the actual ones.
TEST(MixedStep, PredictsPlansThatWereNeverTraced) {
  // Bound by the device or by threads.
  for (const double host_us : {10.0, 400.0}) {
    const Recorded recorded =
        record({Precision::kF32, Precision::kBf16, Precision::kF16}, host_us);
    const CastCosts casts = casts_of(recorded);
    for (const Precision a : recorded.precisions())
      for (const Precision b : recorded.precisions())
        for (const Precision c : recorded.precisions()) {
          const auto plan = plan_of({{"conv1", a}, {"conv2", b}, {"fc", c}});
          const ModelTrace truth(small_model(), plan, false, host_us);
          const double predicted = replayed(mix_step(recorded, plan, casts));
          EXPECT_NEAR(predicted / truth.step_us(), 1, 0.03)
              << to_string(a) << " " << to_string(b) << " " << to_string(c)
              << " " << host_us;
          EXPECT_EQ(mix_memory(recorded, plan).peak(), truth.peak_bytes())
              << to_string(a) << " " << to_string(b) << " " << to_string(c);
        }
  }
}

TEST(MixedStep, WantsTracesOfOneModelAndEachPrecisionOnce) {
  expect_throws<UsageError>(
      [] {
        record({Precision::kF32, Precision::kF32});
      },
      {"both traces in f32"});
  auto other = small_model();
  other[1].op = "aten::gelu";
  std::vector<StepProfile> profiles;
  profiles.push_back(read_profile(
      ModelTrace(small_model(), uniform(Precision::kF32), true).write()));
  profiles.push_back(
      read_profile(ModelTrace(other, uniform(Precision::kBf16), true).write()));
  expect_throws<UsageError>([&] { Recorded{std::move(profiles)}; },
                            {"not traces of one model", "gelu"});
  const Recorded recorded = record({Precision::kF32});
  expect_throws<UsageError>(
      [&] {
        mix_step(recorded, plan_of({{"fc", Precision::kInt8}}), {});
      },
      {"no trace with layers in int8", "sheaf trace"});
}

}  // namespace
}  // namespace sheaf::plan
