#include "sheaf/train/loop/evaluation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

MetricValues with_loss(double loss) {
  MetricValues values;
  values.loss = loss;
  return values;
}

TEST(BestEpoch, IsTheFirstWithTheLowestLoss) {
  with_one_rank([](const comm::Group& group) {
    const EarlyStoppingConfig rule;
    TrainState state;
    std::vector<bool> is_best;
    for (const double loss : {3.0, 2.0, 2.5, 2.0}) {
      ++state.step;
      is_best.push_back(judge_epoch(group, rule, with_loss(loss), true, state));
    }
    EXPECT_EQ(is_best, (std::vector<bool>{true, true, false, false}));
    EXPECT_EQ(state.best, 2.0);
    EXPECT_EQ(state.best_step, 2);
    EXPECT_EQ(state.best_metric, "validation_loss");
    EXPECT_EQ(state.epochs_since_best, 2);
    EXPECT_FALSE(state.has_stopped_early);
  });
}

TEST(BestEpoch, PatienceEndsTheRun) {
  with_one_rank([](const comm::Group& group) {
    EarlyStoppingConfig rule;
    rule.patience = 2;
    TrainState state;
    for (const double loss : {1.0, 1.5}) {
      judge_epoch(group, rule, with_loss(loss), false, state);
      EXPECT_FALSE(state.has_stopped_early);
    }
    judge_epoch(group, rule, with_loss(1.5), false, state);
    EXPECT_TRUE(state.has_stopped_early);
  });
}

// Rank 0 decides, whatever the other ranks computed.
TEST(BestEpoch, IsTheOneOfRankZero) {
  comm::run_threads(3, [](const comm::Group& group) {
    TrainState state;
    state.best = 2;
    EXPECT_TRUE(
        judge_epoch(group, {}, with_loss(1 + group.rank()), false, state));
    EXPECT_EQ(state.epochs_since_best, 0);
  });
}

TEST(BestEpoch, CanBeForgotten) {
  TrainState state;
  state.best = 1;
  state.best_step = 3;
  state.best_metric = "train_loss";
  forget_best(state);
  EXPECT_TRUE(std::isnan(state.best));
  EXPECT_EQ(state.best_step, -1);
  EXPECT_EQ(state.best_metric, "");
}

// Only the first epoch counts as better, so its weights are tested: those with
// which a run of one epoch ends.
TEST(TestBest, TestsTheWeightsOfTheBestEpoch) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const std::vector<std::string> sets{"data.validation=5",
                                        "schedule=constant",
                                        "early_stopping.min_change=1e9"};
    const auto run_of = [&](const std::string& epochs) {
      std::vector<std::string> all = sets;
      all.push_back("epochs=" + epochs);
      return run_in(group, folder.path() / epochs, small_run(all));
    };
    const RunResult one = run_of("1"), three = run_of("3");
    EXPECT_EQ(three.tested_step, one.steps);
    EXPECT_EQ(three.test->loss, one.test->loss);
    EXPECT_EQ(three.test->rows, 10);
    // Afterwards the learner has the last weights again.
    EXPECT_FALSE(has_same_bits(one.weights, three.weights));
  });
}

// On all ranks, instead of a result of other weights.
TEST(TestBest, FailsIfTheBestWeightsCannotBeRead) {
  const TemporaryFolder folder;
  const RunConfig config = small_run({"data.validation=5"});
  comm::run_threads(2, [&](const comm::Group& group) {
    TrainingSession session(group, config);
    session.start();
    const CheckpointFolder checkpoints(folder.path(), 1);
    TrainState state;
    state.step = 5;
    state.best_step = 3;
    state.best_metric = "validation_loss";
    const auto test = [&] { test_best(session, state, checkpoints); };
    if (group.rank() == 0)
      expect_throws<IoError>(test, {"step-0000000003", "the test needs it",
                                    "validation_loss", "--resume"});
    else
      EXPECT_THROW(test(), FailedOnRoot);
  });
}

}  // namespace
}  // namespace sheaf::train
