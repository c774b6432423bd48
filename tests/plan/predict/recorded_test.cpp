#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/predict/mixed_step.hpp"
#include "tests/plan/graph/hand_profiles.hpp"
#include "tests/plan/predict/recorded_models.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

using enum Precision;

// a -> relu -> b, all in one precision.
StepProfile hand_trace(Precision precision) {
  StepProfile profile = profile_of_slots({hand_slot("aten::conv2d", "a", {}),
                                          hand_slot("aten::relu", "", {0}),
                                          hand_slot("aten::linear", "b", {1})});
  profile.file = concat(to_string(precision), ".json");
  set_precision(profile, precision);
  return profile;
}

Recorded hand_recorded(const std::vector<Precision>& precisions) {
  std::vector<StepProfile> profiles;
  for (const Precision one : precisions) profiles.push_back(hand_trace(one));
  return Recorded(std::move(profiles));
}

TEST(Recorded, HasTracesFromTheHighestPrecision) {
  const Recorded recorded = hand_recorded({kInt8, kBf16, kF32, kF16, kTf32});
  EXPECT_EQ(recorded.precisions(),
            (std::vector<Precision>{kF32, kTf32, kBf16, kF16, kInt8}));
  EXPECT_EQ(recorded.base().file, "f32.json");
  EXPECT_EQ(recorded.of(kF16).file, "f16.json");
  EXPECT_EQ(hand_recorded({kF16, kBf16}).base().file, "bf16.json");
}

TEST(Recorded, WantsTracesOfOneModelAndEachPrecisionOnce) {
  expect_throws<UsageError>([] { Recorded{std::vector<StepProfile>{}}; },
                            {"no traces to plan with"});
  expect_throws<UsageError>(
      [] {
        hand_recorded({kF32, kF32});
      },
      {"both traces in f32"});
  std::vector<StepProfile> profiles{hand_trace(kF32), hand_trace(kBf16)};
  profiles[1].graph.slots[1].name = profiles[1].graph.slots[1].op =
      "aten::gelu";
  expect_throws<UsageError>(
      [&] { Recorded{profiles}; },
      {"f32.json and bf16.json are not traces of one model", "at operator 1",
       "aten::relu", "aten::gelu"});
  profiles[1] = hand_trace(kBf16);
  profiles[1].graph.slots.pop_back();
  expect_throws<UsageError>([&] { Recorded{profiles}; },
                            {"not traces of one model", "3 operators and 2"});
  profiles[1] = hand_trace(kBf16);
  profiles[1].model.is_uniform = false;
  expect_throws<UsageError>(
      [&] { Recorded{profiles}; },
      {"bf16.json is a trace of a run with a plan", "sheaf trace --precision"});
}

// A layer is the same in all precisions; its operator need not be.
TEST(Recorded, LayersMayUseOtherOperators) {
  StepProfile a = hand_trace(kF32), b = hand_trace(kInt8);
  b.graph.slots[2].op = "sheaf::int8_linear";
  EXPECT_NO_THROW(check_one_model(a, b));
  b.graph.slots[2].layer = "c";
  b.graph.slots[2].name = "c";
  expect_throws<UsageError>([&] { check_one_model(a, b); },
                            {"at operator 2 the first has b, the second c"});
}

TEST(Recorded, PrecisionsWithoutATraceAreReported) {
  const Recorded recorded = hand_recorded({kF32});
  EXPECT_TRUE(recorded.has(kF32));
  EXPECT_FALSE(recorded.has(kInt8));
  expect_throws<UsageError>(
      [&] { recorded.of(kInt8); },
      {"no trace with layers in int8", "sheaf trace CONFIG --precision int8"});
  const Recorded small = record(small_model(), {kF32});
  expect_throws<UsageError>(
      [&] {
        mix_step(small, plan_of({{"fc", kInt8}}), {});
      },
      {"no trace with layers in int8"});
}

TEST(Recorded, LayersThatTheModelDoesNotHaveAreReported) {
  const Recorded recorded = record(small_model(), {kF32});
  EXPECT_NO_THROW(recorded.check_layers(plan_of({{"conv2", kBf16}})));
  expect_throws<UsageError>(
      [&] {
        recorded.check_layers(plan_of({{"conw2", kBf16}}));
      },
      {"no layer 'conw2'; did you mean 'conv2'?", "sheaf plan graph",
       recorded.base().file});
}

TEST(Recorded, TypesFollowProducersAndOperatorsInF32Stay) {
  const Recorded recorded = record(small_model(), {kF32, kBf16});
  EXPECT_EQ(recorded.is_f32_only(),
            (std::vector<bool>{false, false, false, false, true, false}));
  const auto types = recorded.types_under(plan_of({{"conv1", kBf16}}));
  EXPECT_EQ(types[1].result, kBf16);
  EXPECT_TRUE(types[2].casts[0].is_needed);
  EXPECT_EQ(types[3].result, kF32);  // promoted
  EXPECT_FALSE(types[4].casts[0].is_needed);
}

// Losses are scaled if a layer outputs f16.
TEST(Recorded, AFrameIsThatOfF16IfAnyLayerHasIt) {
  const Recorded recorded = hand_recorded({kF32, kBf16, kF16});
  EXPECT_EQ(recorded.frame_of(plan_of({})).file, "f32.json");
  EXPECT_EQ(recorded.frame_of(uniform(kBf16)).file, "f32.json");
  EXPECT_EQ(recorded.frame_of(plan_of({{"b", kF16}})).file, "f16.json");
  EXPECT_EQ(recorded.frame_of(plan_of({{"b", kInt8}})).file, "f32.json");
}

TEST(Recorded, LoadersTakeTheLeastTimeThatWasRecorded) {
  const auto loader_ns = [](std::int64_t high, std::int64_t low) {
    std::vector<StepProfile> profiles{hand_trace(kF32), hand_trace(kBf16)};
    profiles[0].step.loader_ns = high;
    profiles[1].step.loader_ns = low;
    return Recorded(std::move(profiles)).loader_ns();
  };
  EXPECT_EQ(loader_ns(0, 0), 0);
  EXPECT_EQ(loader_ns(0, 70), 70);
  EXPECT_EQ(loader_ns(50, 70), 50);
  EXPECT_EQ(loader_ns(50, 40), 40);
}

TEST(Recorded, ASlotTakesTheTypesItHadInTheTrace) {
  const Recorded recorded = hand_recorded({kF32, kBf16});
  const auto types = recorded.types_under(plan_of({{"a", kBf16}}));
  EXPECT_TRUE(takes(recorded.of(kBf16), 1, types[1]));
  EXPECT_FALSE(takes(recorded.of(kF32), 1, types[1]));
  EXPECT_TRUE(takes(recorded.of(kF32), 0, types[0]));  // no inputs
  // Integers are the same in all traces.
  StepProfile integers = hand_trace(kF32);
  integers.graph.slots[0].type.reset();
  EXPECT_TRUE(takes(integers, 1, types[1]));
}

TEST(Recorded, WorkIsTakenFromTheTraceWithItsTypes) {
  const Recorded recorded = hand_recorded({kF32, kBf16, kF16});
  const PrecisionPlan plan = plan_of({{"a", kBf16}, {"b", kF16}});
  const auto types = recorded.types_under(plan);
  EXPECT_EQ(recorded.source_of(0, types[0], plan).file, "bf16.json");
  EXPECT_EQ(recorded.source_of(1, types[1], plan).file, "bf16.json");
  EXPECT_EQ(recorded.source_of(2, types[2], plan).file, "f16.json");
  expect_throws<UsageError>(
      [&] { recorded.source_of(2, types[2], uniform(kInt8)); },
      {"no trace with layers in int8"});
}

// Both f16 and int8 output f16: the trace that was recorded as such is used.
TEST(Recorded, WorkIsTakenFromStandInsOnlyIfNecessary) {
  std::vector<StepProfile> profiles{hand_trace(kF32), hand_trace(kF16),
                                    hand_trace(kInt8)};
  profiles[1].is_stand_in = true;
  const PrecisionPlan plan = uniform(kF16);
  const Recorded three(profiles);
  EXPECT_EQ(three.source_of(1, three.types_under(plan)[1], plan).file,
            "int8.json");
  profiles.pop_back();
  const Recorded two(profiles);
  EXPECT_EQ(two.source_of(1, two.types_under(plan)[1], plan).file, "f16.json");
}

TEST(Recorded, WithoutATraceOfItsTypesWorkIsTakenFromTheHighest) {
  const Recorded recorded = hand_recorded({kF32});
  SlotTypes types;
  types.result = kBf16;
  types.casts = {{.from = kBf16}};
  EXPECT_EQ(recorded.source_of(1, types, {}).file, "f32.json");
  // The result's type matters more than the inputs'.
  const Recorded both = hand_recorded({kF32, kBf16});
  types.casts = {{.from = kF32}};
  EXPECT_EQ(both.source_of(1, types, {}).file, "bf16.json");
}

// A custom operator that records neither inputs nor outputs: they are those of
// the trace in f32, and its cast refers to the same input.
TEST(Recorded, ShapesAndCastsAreThoseOfTheHighestTrace) {
  std::vector<StepProfile> profiles;
  for (const Precision one : {kF32, kBf16}) {
    profiles.push_back(hand_trace(one));
    profiles.back().graph.slots[2].inputs = {{0, 1000}, {1, 1000}};
  }
  StepProfile& low = profiles[1];
  low.graph.slots[2].inputs = {{1, 0}};
  low.graph.slots[2].out_shape.clear();
  low.graph.slots[2].type.reset();
  low.parts.push_back({.slot = 2, .cast = 0});
  const Recorded recorded(std::move(profiles));
  const StepProfile& completed = recorded.of(kBf16);
  EXPECT_EQ(completed.graph.slots[2].inputs, recorded.graph().slots[2].inputs);
  EXPECT_EQ(completed.graph.slots[2].out_shape, (Shape{10, 100}));
  EXPECT_EQ(completed.graph.slots[2].type, kBf16);
  EXPECT_EQ(completed.parts.back().cast, 1);
}

TEST(Recorded, CastsOfUnknownInputsAreWorkOfTheLayer) {
  std::vector<StepProfile> profiles{hand_trace(kF32), hand_trace(kBf16)};
  profiles[1].graph.slots[2].inputs = {{0, 1000}};
  profiles[1].parts.push_back({.slot = 2, .cast = 0});
  EXPECT_EQ(Recorded(std::move(profiles)).of(kBf16).parts.back().cast, kNone);
}

TEST(Recorded, ResultsAreFoundInEachTrace) {
  std::vector<StepProfile> profiles{hand_trace(kF32), hand_trace(kBf16)};
  profiles[0].memory = {{4000, forward_part(0), kAfterAll}};
  profiles[1].memory = {{64, forward_part(0), kAfterAll},
                        {2000, forward_part(0), kAfterAll}};
  const Recorded recorded(std::move(profiles));
  EXPECT_EQ(recorded.result_in(recorded.of(kF32), 0), 0u);
  EXPECT_EQ(recorded.result_in(recorded.of(kBf16), 0), 1u);
  EXPECT_EQ(recorded.result_in(recorded.of(kBf16), 1), std::nullopt);
}

}  // namespace
}  // namespace sheaf::plan
