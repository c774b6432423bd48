#include "sheaf/plan/graph/lifetimes.hpp"

#include <gtest/gtest.h>

#include "tests/plan/graph/hand_profiles.hpp"

namespace sheaf::plan {
namespace {

using enum Precision;

// conv -> relu -> linear, each with a result of 4000 bytes.
StepProfile three_slots() {
  StepProfile profile = profile_of_slots({hand_slot("aten::conv2d", "a", {}),
                                          hand_slot("aten::relu", "", {0}),
                                          hand_slot("aten::linear", "b", {1})});
  for (const std::int32_t slot : {0, 1, 2})
    profile.memory.push_back({4000, forward_part(slot), kAfterAll});
  return profile;
}

std::vector<SlotTypes> types_in(const StepProfile& profile, Precision a,
                                Precision b) {
  PrecisionPlan plan;
  plan.layers = {{"a", a}, {"b", b}};
  return flow_types(profile.graph,
                    std::vector<bool>(profile.graph.slots.size()), plan);
}

TEST(Lifetimes, AResultIsFoundByItsSizeAndOperator) {
  StepProfile profile = three_slots();
  const auto found_with = [&](Allocation one) {
    profile.memory = {one};
    return Lifetimes::result_in(profile, 0).has_value();
  };
  const std::int32_t here = forward_part(0), later = backward_part(profile, 0);
  EXPECT_TRUE(found_with({4000, here, later}));
  EXPECT_TRUE(found_with({4000, here, kAfterAll}));
  EXPECT_FALSE(found_with({3999, here, later}));
  // Allocators round up: by 13 % and 1024 bytes at most.
  EXPECT_TRUE(found_with({5543, here, later}));
  EXPECT_FALSE(found_with({5545, here, later}));
  EXPECT_FALSE(found_with({4000, here, here}));  // temporary
  EXPECT_FALSE(found_with({4000, later, later + 1}));
  EXPECT_FALSE(found_with({4000, forward_part(1), later}));
  EXPECT_FALSE(found_with({4000, kBeforeAll, later}));
  profile.parts[0].cast = 0;
  EXPECT_FALSE(found_with({4000, here, later}));
}

TEST(Lifetimes, TheResultIsTheLastOfEqualAllocations) {
  StepProfile profile = three_slots();
  profile.memory = {{4000, 0, 5}, {4000, 0, 5}, {100, 0, 5}};
  EXPECT_EQ(Lifetimes::result_in(profile, 0), 1u);
  profile.graph.slots[0].type.reset();  // integers
  EXPECT_EQ(Lifetimes::result_in(profile, 0), std::nullopt);
}

TEST(Lifetimes, ViewsHaveTheMemoryOfTheirFirstInput) {
  StepProfile profile = profile_of_slots(
      {hand_slot("aten::conv2d", "a", {}), hand_slot("aten::view", "", {0}),
       hand_slot("aten::relu_", "", {1}), hand_slot("aten::linear", "b", {2})});
  profile.memory = {{4000, forward_part(0), backward_part(profile, 3)},
                    {4000, forward_part(3), backward_part(profile, 3)}};
  const Lifetimes lifetimes({&profile});
  EXPECT_EQ(lifetimes.root(0), 0);
  EXPECT_EQ(lifetimes.root(1), 0);
  EXPECT_EQ(lifetimes.root(2), 0);
  EXPECT_EQ(lifetimes.root(3), 3);
  // A layer keeps its input, of which both others are views.
  EXPECT_EQ(lifetimes.last_side(0, types_in(profile, kF32, kF32)), 2 * 3u + 1);
}

// Input data has no allocation and no producer.
TEST(Lifetimes, ASlotWithoutInputsIsItsOwnRoot) {
  const StepProfile profile =
      profile_of_slots({hand_slot("aten::conv2d", "a", {})});
  EXPECT_EQ(Lifetimes({&profile}).root(0), 0);
}

TEST(Lifetimes, ALayerKeepsItsInputUnlessItIsCast) {
  StepProfile profile = three_slots();
  profile.memory[1].died = backward_part(profile, 2);
  const Lifetimes lifetimes({&profile});
  EXPECT_EQ(lifetimes.last_side(1, types_in(profile, kF32, kF32)), 2 * 2u + 1);
  EXPECT_EQ(lifetimes.last_side(1, types_in(profile, kF32, kBf16)), 2 * 2u);
  EXPECT_FALSE(lifetimes.lets_go(2, 0));
}

// Freed by the backward pass of relu itself: it keeps its result, regardless of
// casts.
TEST(Lifetimes, AnOperatorMayKeepItsResult) {
  StepProfile profile = three_slots();
  profile.memory[1].died = backward_part(profile, 1);
  const Lifetimes lifetimes({&profile});
  EXPECT_EQ(lifetimes.last_side(1, types_in(profile, kF32, kBf16)), 2 * 1u + 1);
}

// Freed by the backward pass of a user that is not a layer.
TEST(Lifetimes, AnOperatorMayKeepItsInput) {
  StepProfile profile = three_slots();
  profile.memory[0].died = backward_part(profile, 1);
  const Lifetimes keeps({&profile});
  EXPECT_EQ(keeps.last_side(0, types_in(profile, kF32, kF32)), 2 * 1u + 1);
  profile.memory[0].died = kAfterAll;
  const Lifetimes unknown({&profile});
  EXPECT_EQ(unknown.last_side(0, types_in(profile, kF32, kF32)), 2 * 1u);
}

// Freed in the forward pass without a cast: the layer works on a copy.
TEST(Lifetimes, AResultFreedEarlyIsNotKept) {
  StepProfile profile = three_slots();
  profile.memory[1].died = forward_part(2);
  const Lifetimes lifetimes({&profile});
  EXPECT_TRUE(lifetimes.lets_go(2, 0));
  EXPECT_EQ(lifetimes.last_side(1, types_in(profile, kF32, kF32)), 2 * 2u);
}

// With a cast, the trace does not show whether the layer keeps its input.
TEST(Lifetimes, AResultFreedAfterACastMayBeKeptWithoutIt) {
  StepProfile profile = three_slots();
  profile.parts.insert(profile.parts.begin() + 2, {.slot = 2, .cast = 0});
  profile.memory[1].died = 2;
  profile.memory[2].born = 3;
  const Lifetimes lifetimes({&profile});
  EXPECT_FALSE(lifetimes.lets_go(2, 0));
  EXPECT_EQ(lifetimes.last_side(1, types_in(profile, kF32, kF32)), 2 * 2u + 1);
}

// The program holds the result of conv until linear has run, which does not use
// it.
TEST(Lifetimes, AProgramMayHoldAResultForLonger) {
  StepProfile profile = three_slots();
  profile.memory[0].died = forward_part(2);
  const Lifetimes lifetimes({&profile});
  EXPECT_EQ(lifetimes.last_side(0, types_in(profile, kF32, kF32)), 2 * 2u);
}

// One trace shows that relu keeps its result, another that it does not: then
// something else kept it.
TEST(Lifetimes, AllTracesAreLearnedFrom) {
  StepProfile high = three_slots(), low = three_slots();
  high.memory[1].died = backward_part(high, 1);
  low.graph.slots[1].type = kBf16;
  low.memory[1] = {2000, forward_part(1), forward_part(2)};
  const auto types = types_in(high, kF32, kBf16);
  EXPECT_EQ(Lifetimes({&high}).last_side(1, types), 2 * 1u + 1);
  EXPECT_EQ(Lifetimes({&high, &low}).last_side(1, types), 2 * 2u);
}

}  // namespace
}  // namespace sheaf::plan
