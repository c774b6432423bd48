#include "sheaf/train/loop/session.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

// The config's network, whose output is not finite on one rank.
SessionOptions broken_on(const comm::Group& group, const RunConfig& config,
                         int rank) {
  Model model = make_model(config);
  if (group.rank() == rank)
    model.forward = [forward = model.forward](const torch::Tensor& input) {
      return forward(input) * std::numeric_limits<float>::quiet_NaN();
    };
  return {.model = model};
}

// Weights before and after one step in which rank 1 of 2 is broken.
struct BrokenStep {
  StepResult result;
  bool are_weights_same = false;
  std::vector<double> metric_sums;
};

BrokenStep broken_step(const comm::Group& group, const std::string& policy,
                       bool applies_always) {
  const RunConfig config = small_run({"on_non_finite=" + policy});
  TrainingSession session(group, config, broken_on(group, config, 1));
  session.start();
  session.learner().set_training(true);
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& one : session.module().parameters())
    before.push_back(one.detach().clone());
  Metrics metrics(session.classes());
  BrokenStep step;
  step.result =
      session.step(*session.loaders().train->begin(),
                   {.step = 0, .applies_always = applies_always}, metrics);
  step.metric_sums = metrics.sums();
  step.are_weights_same = true;
  for (std::size_t i = 0; i < before.size(); ++i)
    step.are_weights_same =
        step.are_weights_same &&
        torch::equal(before[i], session.module().parameters()[i].detach());
  return step;
}

TEST(Session, TotalsOfAStepAreThoseOfAllRanks) {
  const RunConfig config = small_run();
  for (const int ranks : {1, 2, 3})
    comm::run_threads(ranks, [&](const comm::Group& group) {
      TrainingSession session(group, config);
      session.start();
      session.learner().set_training(true);
      Metrics metrics(session.classes());
      const StepResult done =
          session.step(*session.loaders().train->begin(), {}, metrics);
      metrics.sum_over(group);
      EXPECT_EQ(done.totals.rows, 8);
      EXPECT_EQ(done.totals.rows, metrics.totals().rows);
      EXPECT_EQ(done.totals.loss, metrics.totals().loss);
      EXPECT_EQ(done.totals.hits, metrics.totals().hits);
      EXPECT_TRUE(done.is_applied);
      EXPECT_FALSE(done.must_stop);
      EXPECT_EQ(done.learning_rate, session.schedule().rate(0));
    });
}

TEST(Session, ASignalOnOneRankStopsAll) {
  const RunConfig config = small_run();
  comm::run_threads(3, [&](const comm::Group& group) {
    TrainingSession session(group, config);
    session.start();
    Metrics metrics(session.classes());
    const StepResult done = session.step(
        *session.loaders().train->begin(),
        {.wants_stop = [&] { return group.rank() == 2; }}, metrics);
    EXPECT_TRUE(done.must_stop);
    EXPECT_TRUE(done.is_applied);
  });
}

TEST(Session, NoRankAppliesAStepThatIsNotFiniteOnOne) {
  comm::run_threads(2, [&](const comm::Group& group) {
    for (const char* policy : {"stop", "skip"}) {
      const BrokenStep step = broken_step(group, policy, false);
      EXPECT_FALSE(step.result.is_applied) << policy;
      EXPECT_TRUE(step.are_weights_same) << policy;
    }
  });
}

TEST(Session, ASkippedStepLeavesTheMetricsAsTheyWere) {
  comm::run_threads(2, [&](const comm::Group& group) {
    const BrokenStep step = broken_step(group, "skip", false);
    for (const double sum : step.metric_sums) EXPECT_EQ(sum, 0);
  });
}

TEST(Session, IgnoredAndMeasuredStepsAreAppliedAnyway) {
  comm::run_threads(2, [&](const comm::Group& group) {
    const BrokenStep ignored = broken_step(group, "ignore", false);
    EXPECT_TRUE(ignored.result.is_applied);
    EXPECT_FALSE(ignored.are_weights_same);
    const BrokenStep measured = broken_step(group, "stop", true);
    EXPECT_TRUE(measured.result.is_applied);
    EXPECT_FALSE(measured.are_weights_same);
  });
}

TEST(Session, WithoutAStrategyThereIsOneRank) {
  const RunConfig config = small_run({"parallel.strategy=none"});
  comm::run_threads(2, [&](const comm::Group& group) {
    if (group.rank() == 0)
      expect_throws<UsageError>([&] { TrainingSession(group, config); },
                                {"requires one rank"});
    else
      EXPECT_THROW(TrainingSession(group, config), FailedOnRoot);
  });
}

// The message names the key that was set.
TEST(Session, WithoutStagesThereIsNoPretraining) {
  with_one_rank([](const comm::Group& group) {
    for (const std::string key :
         {"pretraining.epochs", "pretraining.classifier_epochs"})
      expect_throws<UsageError>(
          [&] { TrainingSession(group, small_run({key + "=1"})); },
          {key + " is above 0", "'mlp' has no stages to pre-train"});
  });
}

}  // namespace
}  // namespace sheaf::train
