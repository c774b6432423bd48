#include "sheaf/parallel/plan_trials.hpp"

#include <gtest/gtest.h>

namespace sheaf::parallel {
namespace {

TEST(PlanTrials, EveryPlanHasItsTurns) {
  PlanTrials trials(3, 2);
  std::vector<int> passes(3);
  while (!trials.is_over()) {
    const std::size_t plan = trials.plan();
    // The first pass of a turn does not count, and one slow pass is no matter.
    const bool is_first = passes[plan] % 3 == 0;
    const bool is_slow = passes[plan] == 5;
    ++passes[plan];
    trials.add(is_first ? 1 : is_slow ? 1000 : 10 + static_cast<double>(plan));
    if (trials.is_turn_over()) trials.next_turn();
  }
  EXPECT_EQ(passes, (std::vector<int>{6, 6, 6}));
  EXPECT_EQ(trials.median_ms(), (std::vector<double>{10, 11, 12}));
}

TEST(PlanTrials, ShortStepsAreTriedMoreOften) {
  EXPECT_EQ(passes_for(1000), 2);
  EXPECT_EQ(passes_for(20), 5);
  EXPECT_EQ(passes_for(0), 15);
}

TEST(PlanTrials, EndWhenTheyAreGivenUp) {
  EXPECT_TRUE(PlanTrials().is_over());
  PlanTrials trials(2, 2);
  EXPECT_FALSE(trials.is_over());
  trials.give_up();
  EXPECT_TRUE(trials.is_over());
}

TEST(PlanTrials, TheFirstStaysUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(fastest_plan({10, 9.9, 12}), 0);
  EXPECT_EQ(fastest_plan({10, 9.5, 9.4}), 2);
  EXPECT_EQ(fastest_plan({}), 0);
}

}  // namespace
}  // namespace sheaf::parallel
