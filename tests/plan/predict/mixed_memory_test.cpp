#include <gtest/gtest.h>

#include "sheaf/plan/predict/mixed_step.hpp"
#include "tests/plan/graph/hand_profiles.hpp"
#include "tests/plan/predict/recorded_models.hpp"

namespace sheaf::plan {
namespace {

using enum Precision;

constexpr std::int64_t kHeld = 1000;  // bytes allocated before the step

// Allocates memory in this order and then frees it in the same order.
void set_memory(StepProfile& profile, const std::vector<Allocation>& list) {
  profile.model.bytes_before = kHeld;
  profile.memory = list;
  profile.memory_events.clear();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].born != kBeforeAll) profile.memory_events.push_back({i, false});
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].died != kAfterAll) profile.memory_events.push_back({i, true});
}

void expect_memory(const PhaseMemory& memory, std::int64_t forward,
                   std::int64_t backward, std::int64_t rest) {
  EXPECT_EQ(memory.forward, forward);
  EXPECT_EQ(memory.backward, backward);
  EXPECT_EQ(memory.rest, rest);
}

// a -> b; results of 4 bytes per element, 2 in 16 bits, are kept until the
// backward pass of b, which needs `workspace` bytes.
StepProfile two_layer_trace(Precision precision, std::int64_t workspace) {
  StepProfile profile = profile_of_slots({hand_slot("aten::conv2d", "a", {}),
                                          hand_slot("aten::linear", "b", {0})});
  set_precision(profile, precision);
  const std::int64_t bytes = 1000 * bytes_of(precision);
  const std::int32_t last = backward_part(profile, 1);
  set_memory(profile, {{bytes, forward_part(0), last},
                       {bytes, forward_part(1), last},
                       {workspace, last, last}});
  return profile;
}

TEST(MixedMemory, PeakIsTheLargestPhase) {
  EXPECT_EQ((PhaseMemory{3, 2, 1}.peak()), 3);
  EXPECT_EQ((PhaseMemory{1, 3, 2}.peak()), 3);
  EXPECT_EQ((PhaseMemory{2, 1, 3}.peak()), 3);
}

TEST(MixedMemory, OfOneTraceFollowsItsAllocations) {
  const Recorded recorded({two_layer_trace(kF32, 100)});
  expect_memory(mix_memory(recorded, {}), kHeld + 8000, kHeld + 8100, kHeld);
}

// A backward pass that allocates nothing still holds the results.
TEST(MixedMemory, OfBackwardIncludesWhatForwardLeft) {
  StepProfile profile = two_layer_trace(kF32, 100);
  profile.memory.pop_back();
  set_memory(profile, std::vector<Allocation>(profile.memory));
  expect_memory(mix_memory(Recorded({profile}), {}), kHeld + 8000, kHeld + 8000,
                kHeld);
}

// What was allocated before the step is freed in backward; then the optimizer
// allocates 700 bytes, and 500 after it has freed these.
TEST(MixedMemory, HasTheMemoryOfTheOptimizerAndOfTheStepBefore) {
  StepProfile profile = two_layer_trace(kF32, 100);
  auto list = profile.memory;
  list.push_back({300, kBeforeAll, backward_part(profile, 0)});
  set_memory(profile, list);
  for (const std::int64_t bytes : {700, 500}) {
    profile.memory_events.push_back({profile.memory.size(), false});
    profile.memory_events.push_back({profile.memory.size(), true});
    profile.memory.push_back({bytes, kAfterAll, kAfterAll});
  }
  expect_memory(mix_memory(Recorded({profile}), {}), kHeld + 8000, kHeld + 8100,
                kHeld - 300 + 700);
}

// b in bf16: the input is cast to 2000 bytes, which b keeps instead of the 4000
// bytes of a's result.
TEST(MixedMemory, ACastInputIsKeptInPlaceOfTheResult) {
  const Recorded recorded(
      {two_layer_trace(kF32, 100), two_layer_trace(kBf16, 10)});
  expect_memory(mix_memory(recorded, plan_of({{"b", kBf16}})),
                kHeld + 4000 + 2000 + 2000, kHeld + 2000 + 2000 + 10, kHeld);
  // a in bf16: its result is smaller, and b casts it to 4000 bytes.
  expect_memory(mix_memory(recorded, plan_of({{"a", kBf16}})),
                kHeld + 2000 + 4000 + 4000, kHeld + 4000 + 4000 + 100, kHeld);
  expect_memory(mix_memory(recorded, uniform(kBf16)), kHeld + 4000,
                kHeld + 4010, kHeld);
}

// Losses are scaled in f16: the optimizer is that of its trace.
TEST(MixedMemory, TheFrameIsThatOfThePlan) {
  StepProfile low = two_layer_trace(kF16, 100);
  low.model.bytes_before = 5000;
  const Recorded recorded({two_layer_trace(kF32, 100), low});
  EXPECT_EQ(mix_memory(recorded, {}).rest, kHeld);
  EXPECT_EQ(mix_memory(recorded, plan_of({{"b", kF16}})).rest, 5000);
}

}  // namespace
}  // namespace sheaf::plan
