#include "sheaf/parallel/plan_trials.hpp"

#include <gtest/gtest.h>

#include "sheaf/parallel/dad_parallel.hpp"
#include "tests/parallel/dad_training.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

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

// How often the plan changes in 40 steps.
int changes_of_plan(const comm::Group& group, bool keeps_graphs) {
  auto net = make_net(maker<MlpImpl>(), at::kDouble, 1);
  DadParallel model(net, group,
                    {.mode = DadMode::kAuto,
                     .link = LinkModel{.ranks = group.size(), .latency_s = 1},
                     .has_trials = true});
  const Examples mine =
      share_of(examples(1, kBatch, at::kDouble), group.rank(), group.size());
  std::vector<at::Tensor> kept;
  std::string plan;
  int changes = -1;
  for (int step = 0; step < 40; ++step) {
    const at::Tensor loss = part_of_loss(model.forward(mine.data), mine, 5);
    loss.backward();
    if (keeps_graphs) kept.push_back(loss);
    std::string now;
    for (const DadRoute& one : model.routes()) now += one.route + " ";
    changes += std::exchange(plan, now) != now;
  }
  return changes;
}

TEST(PlanTrials, ChangeThePlanOfATraining) {
  comm::run_threads(2, [](const comm::Group& group) {
    EXPECT_GE(changes_of_plan(group, false), 3);
    EXPECT_EQ(changes_of_plan(group, true), 0) << "deltas would be lost";
  });
}

}  // namespace
}  // namespace sheaf::parallel
