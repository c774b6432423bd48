#include "sheaf/plan/graph/step_profile.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

TEST(WaitForSlowest, IsTheMedianOfTheSlowestOfAllWorkers) {
  StepProfile profile;
  for (int i = 0; i <= 100; ++i) profile.step_ns.push_back(100 + i);
  EXPECT_DOUBLE_EQ(wait_for_slowest(profile, 1), 1);
  // With probability 0.5 both of two steps are below the 71st percentile.
  EXPECT_NEAR(wait_for_slowest(profile, 2), 170.71 / 150, 1e-3);
  EXPECT_NEAR(wait_for_slowest(profile, 4), 184.09 / 150, 1e-3);
  EXPECT_LE(wait_for_slowest(profile, 1024), 200.0 / 150);
}

TEST(WaitForSlowest, IsNothingWithoutHiccups) {
  StepProfile profile;
  EXPECT_EQ(wait_for_slowest(profile, 8), 1);
  profile.step_ns = {5, 5, 5};
  EXPECT_EQ(wait_for_slowest(profile, 8), 1);
}

TEST(WaitForSlowest, LeavesOutWhatIsFarFromAllElse) {
  StepProfile profile;
  profile.step_ns = {100, 101, 102, 103, 104, 300, 310, 320};
  EXPECT_LT(wait_for_slowest(profile, 8), 1.05);
}

}  // namespace
}  // namespace sheaf::plan
