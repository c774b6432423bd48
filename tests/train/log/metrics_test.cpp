#include "sheaf/train/log/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::train {
namespace {

torch::Tensor answers(const std::vector<std::int64_t>& classes,
                      std::int64_t count) {
  return torch::one_hot(torch::tensor(classes), count).to(torch::kFloat);
}

// Targets 0 0 0 1 1 2, predictions 0 0 1 1 2 2: class 0 has 2 hits, 3 targets
// and 2 predictions; class 1 has 1, 2, 2; class 2 has 1, 1, 2.
const std::vector<std::int64_t> kTargets{0, 0, 0, 1, 1, 2};
const std::vector<std::int64_t> kAnswers{0, 0, 1, 1, 2, 2};

void expect_known(const MetricValues& values) {
  EXPECT_EQ(values.rows, 6);
  EXPECT_DOUBLE_EQ(values.loss, 0.5);
  EXPECT_DOUBLE_EQ(values.accuracy, 4.0 / 6);
  EXPECT_DOUBLE_EQ(values.precision, (2.0 / 2 + 1.0 / 2 + 1.0 / 2) / 3);
  EXPECT_DOUBLE_EQ(values.recall, (2.0 / 3 + 1.0 / 2 + 1.0 / 1) / 3);
  EXPECT_DOUBLE_EQ(values.f1, (4.0 / 5 + 2.0 / 4 + 2.0 / 3) / 3);
}

TEST(Metrics, FollowFromCounts) {
  Metrics metrics(4);  // the fourth class does not occur and does not count
  metrics.add(0.5, answers(kAnswers, 4), torch::tensor(kTargets));
  expect_known(metrics.values());
}

TEST(Metrics, WhatWasAddedSinceAMarkCanBeTakenBack) {
  Metrics metrics(4);
  metrics.add(0.5, answers(kAnswers, 4), torch::tensor(kTargets));
  metrics.mark();
  const Totals added = metrics.add(MetricValues::kNan, answers({2, 3}, 4),
                                   torch::tensor({2, 1}));
  EXPECT_EQ(added.rows, 2);
  EXPECT_EQ(added.hits, 1);
  EXPECT_TRUE(std::isnan(metrics.values().loss));
  metrics.take_back();
  expect_known(metrics.values());
}

TEST(Metrics, BatchesWeighByTheirRows) {
  Metrics metrics(0);
  metrics.add(1.0, {}, torch::zeros({3}));
  metrics.add(4.0, {}, torch::zeros({1}));
  EXPECT_DOUBLE_EQ(metrics.values().loss, 1.75);
  EXPECT_TRUE(std::isnan(metrics.values().accuracy));
}

TEST(Metrics, RanksGiveWhatOneRankWould) {
  for (const int ranks : {1, 2, 3, 7})
    comm::run_threads(ranks, [&](const comm::Group& group) {
      Metrics metrics(3);
      // Row r belongs to rank r modulo the number of ranks; of 7 ranks, one has
      // none.
      for (int row = group.rank(); row < 6; row += ranks)
        metrics.add(row < 3 ? 0.25 : 0.75,
                    answers({kAnswers[static_cast<std::size_t>(row)]}, 3),
                    torch::tensor({kTargets[static_cast<std::size_t>(row)]}));
      metrics.sum_over(group);
      expect_known(metrics.values());
    });
}

TEST(Metrics, NothingIsNotANumber) {
  Metrics metrics(2);
  metrics.add(0, torch::zeros({0, 2}), torch::zeros({0}, torch::kLong));
  EXPECT_EQ(metrics.values().rows, 0);
  EXPECT_TRUE(std::isnan(metrics.values().loss));
}

TEST(Metrics, WrongOutputsAndTargetsAreErrors) {
  Metrics metrics(3);
  EXPECT_THROW(metrics.add(0, torch::zeros({1, 2}), torch::tensor({0})),
               UsageError);
  EXPECT_THROW(metrics.add(0, torch::zeros({1, 3}), torch::tensor({3})),
               UsageError);
  EXPECT_THROW(metrics.values().get("f2"), UsageError);
}

TEST(Metrics, BetterIsLessLossAndMoreOfTheRest) {
  EXPECT_TRUE(is_better("loss", 1, 2));
  EXPECT_FALSE(is_better("loss", 2, 2));
  EXPECT_FALSE(is_better("loss", 1.95, 2, 0.1));
  EXPECT_TRUE(is_better("accuracy", 0.9, 0.8));
  EXPECT_FALSE(is_better("accuracy", 0.8, 0.9));
  EXPECT_TRUE(is_better("f1", 0.1, NAN));
  EXPECT_FALSE(is_better("loss", NAN, 1));
}

TEST(Metrics, OneRowIsEnough) {
  Metrics metrics(2);
  metrics.add(2.5, answers({1}, 2), torch::tensor({1}));
  EXPECT_EQ(metrics.values().rows, 1);
  EXPECT_EQ(metrics.values().loss, 2.5);
  EXPECT_EQ(metrics.values().accuracy, 1);
  EXPECT_EQ(metrics.values().f1, 1);
}

}  // namespace
}  // namespace sheaf::train
