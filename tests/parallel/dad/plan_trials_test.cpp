#include "sheaf/parallel/dad/plan_trials.hpp"

#include <gtest/gtest.h>

#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "tests/parallel/dad/dad_training.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

TEST(PlanTrials, EveryPlanHasItsTurns) {
  PlanTrials trials(3, 2);
  std::vector<int> passes(3);
  while (!trials.is_over()) {
    const std::size_t plan = trials.plan();
    // The first pass of a turn is ignored, and a single slow pass has no
    // effect.
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

// The number of times that the plan changes in 40 steps.
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

std::string routes_text(const DadParallelCore& model) {
  std::string text;
  for (const DadRoute& one : model.routes()) text += one.route + " ";
  return text;
}

DadOptions options_with_trials(const comm::Group& group) {
  return {.mode = DadMode::kAuto,
          .link = LinkModel{.ranks = group.size(), .latency_s = 1},
          .has_trials = true};
}

// From the first change of the plan on, each step has a first pass without
// exchange: a plan installed between the two passes would not know of it.
void train_with_local_passes(const comm::Group& group) {
  auto net = make_net(maker<MlpImpl>(), at::kDouble, 1);
  auto alone = make_net(maker<MlpImpl>(), at::kDouble, 1);
  DadOptions options = options_with_trials(group);
  options.average = Average::kRanks;
  DadParallel model(net, group, options);
  std::string first;
  bool has_changed = false;
  for (int step = 0; step < 60; ++step) {
    for (const auto& one : {net, alone}) one->zero_grad();
    const auto learn = [&](auto& from, int batch, int rank) {
      const Examples some =
          share_of(examples(batch, kBatch, at::kDouble), rank, group.size());
      part_of_loss(from.forward(some.data), some, kBatch).backward();
    };
    if (has_changed) {
      const auto guard = model.no_sync();
      learn(model, 1, group.rank());
    }
    learn(model, 2, group.rank());
    for (int rank = 0; rank < group.size(); ++rank) {
      if (has_changed) learn(*alone, 1, rank);
      learn(*alone, 2, rank);
    }
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      ASSERT_LT(sheaf::test::largest_difference(
                    net->parameters()[i].grad() * group.size(),
                    alone->parameters()[i].grad()),
                1e-12)
          << "step " << step << ", parameter " << i;
    if (first.empty()) first = routes_text(model);
    has_changed = has_changed || routes_text(model) != first;
  }
  EXPECT_TRUE(has_changed);
}

TEST(PlanTrials, LocalGradientsAreAveragedWithThePlanThatMadeThem) {
  comm::run_threads(2, train_with_local_passes);
}

void step_with(DadParallel<MlpImpl>& model, const comm::Group& group) {
  const Examples mine =
      share_of(examples(1, kBatch, at::kDouble), group.rank(), group.size());
  part_of_loss(model.forward(mine.data), mine, kBatch).backward();
}

// During the trials and after them.
TEST(PlanTrials, AStateFixesThePlan) {
  for (const int steps : {1, 20, 100})
    comm::run_threads(2, [&](const comm::Group& group) {
      auto net = make_net(maker<MlpImpl>(), at::kDouble, 1);
      DadParallel model(net, group, options_with_trials(group));
      EXPECT_TRUE(model.gather_state().empty()) << "nothing is decided";
      for (int step = 0; step < steps; ++step) step_with(model, group);
      const NamedTensors state = model.gather_state();
      EXPECT_FALSE(model.is_trying());
      const std::string decided = routes_text(model);
      for (int step = 0; step < 40; ++step) step_with(model, group);
      EXPECT_EQ(routes_text(model), decided);

      auto other = make_net(maker<MlpImpl>(), at::kDouble, 1);
      DadOptions slow = options_with_trials(group);
      slow.link->latency_s = 1e-9;  // would lead to another choice
      DadParallel again(other, group, slow);
      // The routes of rank 0, as from a checkpoint.
      FixedRoutes fixed = model.fixed_routes();
      again.load_state(state_of(fixed));
      step_with(again, group);
      EXPECT_FALSE(again.is_trying());
      EXPECT_EQ(routes_text(again), decided);
      if (group.rank() == 0) {
        const FixedRoutes saved = routes_in(state);
        EXPECT_EQ(saved.by_name, fixed.by_name);
        EXPECT_EQ(saved.skips_zeros, fixed.skips_zeros);
      }
    });
}

// The plan of another network is ignored.
TEST(PlanTrials, APlanForOtherParametersIsLeftAside) {
  comm::run_threads(2, [](const comm::Group& group) {
    auto net = make_net(maker<MlpImpl>(), at::kDouble, 1);
    DadParallel model(net, group, options_with_trials(group));
    model.fix_routes({.by_name = {{"first.weight", Route::kDad}}});
    step_with(model, group);
    EXPECT_TRUE(model.is_trying());
  });
}

}  // namespace
}  // namespace sheaf::parallel
