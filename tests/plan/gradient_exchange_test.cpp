#include "sheaf/plan/gradient_exchange.hpp"

#include <gtest/gtest.h>

#include "sheaf/plan/cluster.hpp"
#include "tests/plan/model_trace.hpp"

namespace sheaf::plan {
namespace {

class GradientExchange : public testing::Test {
 protected:
  GradientExchange()
      : recorded_(profiles()),
        step_(mix_step(recorded_, uniform(Precision::kF32), {})) {}
  static std::vector<StepProfile> profiles() {
    std::vector<StepProfile> list;
    list.push_back(read_profile(
        ModelTrace(small_model(), uniform(Precision::kF32), true).write()));
    return list;
  }
  double step_us(const StepGraph& step, std::int64_t collective_ns) const {
    std::vector<Replay> ranks(1);
    const auto together = Replay::run_together(
        ranks, {&step}, [&](std::size_t) { return collective_ns; });
    return 1e-3 * static_cast<double>(together.step_ns[0]);
  }
  Recorded recorded_;
  StepGraph step_;
};

// fc's gradient comes first, and has 2 MB; conv1's last, with 4 kB.
TEST_F(GradientExchange, StartsBucketsWhenTheyAreFull) {
  const StepGraph with = with_exchange(step_, recorded_.base(), {});
  ASSERT_EQ(with.collectives.size(), 2u);
  EXPECT_EQ(with.collectives[0].elements, 500000);
  EXPECT_EQ(with.collectives[1].elements, 1000);
  EXPECT_EQ(collective_bytes(with), (std::vector<double>{2e6, 4e3}));
  // Backward after fc takes two milliseconds: the first is hidden there.
  const double none = step_us(with, 0);
  const double some = step_us(with, 300'000);
  EXPECT_LT(some - none, 400);
  EXPECT_GT(some - none, 250);  // the second one comes at the end
  ExchangeOptions alone;
  alone.is_inline = true;
  const double each =
      step_us(with_exchange(step_, recorded_.base(), alone), 300'000);
  EXPECT_GT(each, some);
}

// fc is 5 x 100,000 with one row; its input does not come from outside.
TEST_F(GradientExchange, SendsFactorsInPlaceOfGradients) {
  ExchangeOptions options;
  options.kind = ExchangeKind::kFactors;
  options.workers = 4;
  const StepGraph with = with_exchange(step_, recorded_.base(), options);
  ASSERT_EQ(with.collectives.size(), 2u);
  EXPECT_EQ(with.collectives[0].name, "all_gather");
  EXPECT_EQ(with.collectives[0].elements, 4 * (100000 + 5));
  EXPECT_EQ(with.collectives[1].elements, 1000);
  options.kind = ExchangeKind::kHalf;
  const StepGraph half = with_exchange(step_, recorded_.base(), options);
  EXPECT_EQ(collective_bytes(half), (std::vector<double>{1e6, 2e3}));
}

TEST_F(GradientExchange, WaitsForTheLastRank) {
  Cluster cluster;
  WorkerKind fast{&recorded_, casts_of(recorded_), 3, 1, {}};
  WorkerKind slow = fast;
  slow.change.compute = 0.5;
  cluster.kinds = {fast, slow};
  cluster.placement = topo::placement_of(topo::Dims{{6}});
  const auto plan = uniform(Precision::kF32);
  const ClusterStep step = predict_step(cluster, {plan, plan});
  EXPECT_EQ(cluster.workers(), 6);
  EXPECT_GT(step.waits_ns[0], 100'000);
  EXPECT_EQ(step.waits_ns[1], 0);
  EXPECT_NEAR(static_cast<double>(step.kind_ns[0]),
              static_cast<double>(step.kind_ns[1]),
              0.05 * static_cast<double>(step.kind_ns[1]));
}

}  // namespace
}  // namespace sheaf::plan
