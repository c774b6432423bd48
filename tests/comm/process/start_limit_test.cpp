#include "sheaf/comm/process/start_limit.hpp"

#include <gtest/gtest.h>

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;

TEST(StartLimitDeathTest, EndsAProcessThatDoesNotStart) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const StartLimit limit(milliseconds(20));
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::ExitedWithCode(4),
      "MPI has not connected the ranks within 20.0 ms");
}

TEST(StartLimit, LeavesAProcessThatHasStartedAlone) {
  for (int i = 0; i < 100; ++i) const StartLimit limit(std::chrono::hours(1));
}

}  // namespace
}  // namespace sheaf::comm
