#include "sheaf/parallel/plan_trials.hpp"

#include <gtest/gtest.h>

namespace sheaf::parallel {
namespace {

TEST(PlanTrials, EveryPlanHasItsTurns) {
  PlanTrials trials(3);
  std::vector<int> passes(3);
  while (!trials.is_over()) {
    ++passes[trials.plan()];
    // The first pass of a turn does not count, nor does a slow second round.
    const double round = passes[trials.plan()] > 3 ? 100 : 0;
    trials.add(round + (passes[trials.plan()] % 3 == 1
                            ? 1
                            : 10 + static_cast<double>(trials.plan())));
    if (trials.is_turn_over()) trials.next_turn();
  }
  EXPECT_EQ(passes, (std::vector<int>{6, 6, 6}));
  EXPECT_EQ(trials.best_ms(), (std::vector<double>{10, 11, 12}));
}

TEST(PlanTrials, EndWhenTheyAreGivenUp) {
  EXPECT_TRUE(PlanTrials().is_over());
  PlanTrials trials(2);
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
