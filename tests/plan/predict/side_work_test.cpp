#include "sheaf/plan/predict/side_work.hpp"

#include <gtest/gtest.h>

#include "tests/plan/graph/hand_profiles.hpp"
#include "tests/plan/predict/recorded_models.hpp"

namespace sheaf::plan {
namespace {

using enum Precision;
using Sums = std::vector<double>;

// a -> b on a device: each part launches a kernel of 100 ns with a gap of 3 ns;
// b casts its input in a part of its own.
StepProfile device_trace(Precision precision) {
  StepProfile profile = profile_of_slots({hand_slot("aten::linear", "a", {}),
                                          hand_slot("aten::linear", "b", {0})});
  set_precision(profile, precision);
  profile.parts.push_back({.slot = 1, .cast = 0});
  profile.step.has_device = true;
  profile.step.threads.resize(1);
  for (std::int32_t part = 0; part < 5; ++part) {
    profile.step.threads[0].push_back(
        {.cpu_ns = 7, .call_ns = 2, .kernel = part, .part = part});
    profile.step.kernels.push_back({.ns = 100, .gap_ns = 3});
  }
  // Outside of all parts, and without a kernel.
  profile.step.threads[0].push_back({.cpu_ns = 1000});
  profile.step.threads[0].push_back({.cpu_ns = 1000, .part = 0});
  return profile;
}

TEST(SideWork, SumsForwardBackwardAndCastsBySlot) {
  StepProfile profile = device_trace(kF32);
  EXPECT_EQ(slot_work_ns(profile), (Sums{206, 309}));
  // A collective is not work of the slot that launches it.
  profile.step.kernels[0].collective = 0;
  EXPECT_EQ(slot_work_ns(profile), (Sums{103, 309}));
  profile.step.has_device = false;
  EXPECT_EQ(slot_work_ns(profile), (Sums{9 + 9 + 1000, 27}));
}

// Marks of composed steps have sides: two for each slot.
TEST(SideWork, OfAComposedStepIsSummedBySides) {
  StepGraph mixed;
  mixed.threads = {{{.cpu_ns = 1, .part = 0}, {.cpu_ns = 10, .part = 1}},
                   {{.cpu_ns = 100, .part = 2}, {.cpu_ns = 1000}}};
  EXPECT_EQ(mixed_work_ns(mixed, 3), (Sums{11, 100, 0}));
}

TEST(SideWork, LeavesOutCasts) {
  const Recorded recorded({device_trace(kF32)});
  const SideWork work(recorded);
  EXPECT_EQ(work.ns(recorded.base(), 0), 206);
  EXPECT_EQ(work.ns(recorded.base(), 1), 206);
}

TEST(SideWork, KeepsBytesFromForwardToBackward) {
  StepProfile profile = device_trace(kF32);
  const std::int32_t forward = forward_part(1), backward = 2, cast = 4;
  profile.memory = {{1, forward, backward},   {20, forward, backward},
                    {400, forward, forward},  {400, backward, backward},
                    {400, cast, backward},    {400, kBeforeAll, backward},
                    {400, forward, kAfterAll}};
  const Recorded recorded({profile});
  const SideWork work(recorded);
  EXPECT_EQ(work.kept_bytes(recorded.base(), 0), 0);
  EXPECT_EQ(work.kept_bytes(recorded.base(), 1), 21);
}

// Kept bytes of a plan: of each slot in the trace with its precision, and the
// inputs that are cast: 1000 elements.
TEST(SideWork, KeepsCastInputsOfAPlan) {
  StepProfile high = device_trace(kF32), low = device_trace(kBf16);
  high.memory = {{70, 0, 3}, {5, 1, 2}};
  low.memory = {{30, 0, 3}, {2, 1, 2}};
  const Recorded recorded({high, low});
  const SideWork work(recorded);
  EXPECT_EQ(work.kept_bytes(recorded, {}), 75);
  EXPECT_EQ(work.kept_bytes(recorded, uniform(kBf16)), 32);
  EXPECT_EQ(work.kept_bytes(recorded, plan_of({{"b", kBf16}})),
            70 + 2 + 2 * 1000);
  EXPECT_EQ(work.kept_bytes(recorded, plan_of({{"a", kBf16}})),
            30 + 5 + 4 * 1000);
}

}  // namespace
}  // namespace sheaf::plan
