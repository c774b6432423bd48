#include "sheaf/plan/choose/planner.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/plan/choose/clusters.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

TEST(Planner, IsNotSlowerThanUniformAndDisturbsLess) {
  const Recorded recorded =
      record(small_model(), {Precision::kF32, Precision::kBf16});
  const ChosenPlan chosen = choose_plan(cluster_of(recorded), {});
  ASSERT_EQ(chosen.uniform.size(), 2u);
  for (const UniformStep& one : chosen.uniform)
    EXPECT_LE(chosen.step.ns, one.step.ns);
  EXPECT_LE(chosen.indicator, chosen.uniform[1].indicator);
  EXPECT_GT(chosen.uniform[1].indicator, 0);
  EXPECT_EQ(chosen.uniform[0].indicator, 0);
}

// A fast worker that waits for a slow one gets higher precision at no cost.
TEST(Planner, WorkersThatWaitAnywayKeepTheirPrecision) {
  auto slow = small_model();
  for (ModelOperator& one : slow) one.us *= 4;
  const std::vector<Precision> both = {Precision::kF32, Precision::kBf16};
  const Recorded fast_one = record(small_model(), both);
  const Recorded slow_one = record(slow, both);
  Cluster cluster;
  cluster.kinds.push_back({&fast_one, casts_of(fast_one), 2, 1});
  cluster.kinds.push_back({&slow_one, casts_of(slow_one), 2, 1});
  cluster.placement = topo::placement_of(topo::Dims{{4}});
  const ChosenPlan chosen = choose_plan(cluster, {});
  for (const char* layer : {"conv1", "conv2", "fc"})
    EXPECT_EQ(chosen.plans[0].of(layer), Precision::kF32) << layer;
  EXPECT_EQ(chosen.plans[1].of("conv2"), Precision::kBf16);
  EXPECT_LE(chosen.step.ns, chosen.uniform[1].step.ns);
  EXPECT_LT(chosen.indicator, chosen.uniform[1].indicator);
}

// One layer in f32 needs casts that are not needed if all layers are in f32.
TEST(Planner, TakesAUniformPlanThatIsAsGood) {
  auto model = chain(6);
  for (ModelOperator& one : model) one.us = one.layer.empty() ? 1 : 2;
  const Recorded recorded = record(model, {Precision::kF32, Precision::kBf16});
  PlannerOptions options;
  options.slack = 1;
  const Cluster cluster = cluster_of(recorded);
  const ChosenPlan chosen = choose_plan(cluster, options);
  EXPECT_EQ(chosen.indicator, 0);
  for (const UniformStep& one : chosen.uniform)
    if (one.step.ns <= 2 * chosen.fastest.ns)
      EXPECT_LE(chosen.indicator, one.indicator);
}

TEST(Planner, KeepsWhatIsFixedAndUsesWhatIsAllowed) {
  const Recorded recorded =
      record(small_model(), {Precision::kF32, Precision::kBf16});
  PlannerOptions options;
  options.fixed.layers["conv2"] = Precision::kF32;
  const ChosenPlan chosen = choose_plan(cluster_of(recorded), options);
  EXPECT_EQ(chosen.plans[0].of("conv2"), Precision::kF32);
  EXPECT_EQ(chosen.reasons[0].at("conv2"), "fixed by the user");
  options.precisions = {Precision::kF16};
  expect_throws<UsageError>([&] { choose_plan(cluster_of(recorded), options); },
                            {"is in an allowed precision"});
}

TEST(PlannedExchange, FactorsWhereTheLinkIsSlow) {
  const Recorded recorded = record(wide_model(), {Precision::kF32});
  const Cluster slow = four_hosts(recorded, 0.1);
  const ChosenPlan chosen = choose_plan(slow, {});
  EXPECT_EQ(to_string(chosen.exchange.plan), "gradients,fc=dad");
  EXPECT_EQ(chosen.exchange.uniform[0].first, "gradients");
  EXPECT_LT(chosen.step.ns, chosen.exchange.uniform[0].second / 2);
  EXPECT_EQ(chosen.step.ns, chosen.exchange.ns);
  EXPECT_NE(chosen.exchange.reasons.at("fc").find("with gradients"),
            std::string::npos);
  EXPECT_FALSE(chosen.exchange.reasons.contains("conv1"));
  // The result equals the prediction with these methods.
  Cluster told = slow;
  told.exchange.routes = parse_exchange("gradients,fc=dad");
  EXPECT_EQ(predict_step(told, chosen.plans).ns, chosen.step.ns);
}

// Without choices the methods are those of the cluster, spelled out.
TEST(PlannedExchange, IsTheClustersWithoutChoices) {
  const Recorded recorded = record(wide_model(), {Precision::kF32});
  Cluster slow = four_hosts(recorded, 0.1);
  slow.exchange.routes = parse_exchange("dad");
  PlannerOptions options;
  options.exchange.reset();
  const ChosenPlan chosen = choose_plan(slow, options);
  EXPECT_EQ(to_string(chosen.exchange.plan), "gradients,fc=dad");
  EXPECT_EQ(chosen.exchange.ns, chosen.step.ns);
}

// A weight that is cast cannot be sent as a factor: fc stays in f32, and the
// layers that gain from bf16 use it.
TEST(PlannedExchange, LayersThatSendFactorsAreNotCast) {
  const Recorded recorded =
      record(wide_model(), {Precision::kF32, Precision::kBf16});
  const ChosenPlan chosen = choose_plan(four_hosts(recorded, 0.1), {});
  EXPECT_EQ(to_string(chosen.exchange.plan), "gradients,fc=dad");
  EXPECT_EQ(chosen.plans[0].of("fc"), Precision::kF32);
  EXPECT_EQ(chosen.plans[0].of("conv2"), Precision::kBf16);
  for (const UniformStep& one : chosen.uniform)
    EXPECT_LE(chosen.step.ns, one.step.ns);
}

}  // namespace
}  // namespace sheaf::plan
