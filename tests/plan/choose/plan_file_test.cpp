#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "sheaf/plan/choose/planner.hpp"
#include "tests/plan/choose/clusters.hpp"

namespace sheaf::plan {
namespace {

ClusterStep step_of_ms(std::int64_t ms) {
  ClusterStep step;
  step.ns = ms * 1'000'000;
  step.kind_ns = {step.ns};
  step.waits_ns = {500'000};
  step.memory = {{.forward = 10, .backward = 30, .rest = 20}};
  step.exchange_ns = 250'000;
  return step;
}

ChosenPlan plan_with_fc_in(Precision precision) {
  ChosenPlan chosen;
  chosen.plans = {plan_of({{"fc", precision}})};
  chosen.reasons.resize(1);
  chosen.reasons[0]["fc"] = "fastest precision";
  chosen.step = step_of_ms(3);
  chosen.indicator = 0.25;
  chosen.fastest = step_of_ms(2);
  chosen.fastest_indicator = 0.5;
  chosen.uniform = {{Precision::kF32, step_of_ms(4), 0},
                    {Precision::kBf16, step_of_ms(5), 0.75}};
  chosen.trade_offs = {{"", 0, Precision::kF32, 2'000'000, 0.5, true},
                       {"fc", 0, Precision::kBf16, 3'000'000, 0.25, false}};
  return chosen;
}

class PlanFile : public testing::Test {
 protected:
  nlohmann::json written(const Cluster& cluster,
                         const ChosenPlan& chosen) const {
    return nlohmann::json::parse(plan_text(cluster, chosen));
  }
  Recorded recorded_ = record(small_model(), {Precision::kF32});
  Cluster cluster_ = cluster_of(recorded_);
};

TEST_F(PlanFile, HasPrecisionsByDevice) {
  std::vector<StepProfile> profiles{recorded_.base()};
  profiles[0].device_name = "other";
  profiles[0].scaled_from = "GPU";
  const Recorded other(std::move(profiles));
  cluster_.kinds.push_back({&other, casts_of(other), 3, 1});
  ChosenPlan chosen = plan_with_fc_in(Precision::kBf16);
  chosen.plans.push_back(uniform(Precision::kF16));
  chosen.reasons.push_back({});
  const std::string text = plan_text(cluster_, chosen);
  EXPECT_EQ(parse_precision_plan(text, "p").of("fc"), Precision::kBf16);
  EXPECT_EQ(parse_precision_plan(text, "p", "GPU").of("fc"), Precision::kBf16);
  EXPECT_EQ(parse_precision_plan(text, "p", "GPU").other, Precision::kF32);
  EXPECT_EQ(parse_precision_plan(text, "p", "other").of("fc"), Precision::kF16);
  const auto devices = nlohmann::json::parse(text)["devices"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]["workers"], 1);
  EXPECT_EQ(devices[0]["reasons"]["fc"], "fastest precision");
  EXPECT_FALSE(devices[0].contains("scaled_from"));
  EXPECT_EQ(devices[1]["workers"], 3);
  EXPECT_EQ(devices[1]["scaled_from"], "GPU");
}

TEST_F(PlanFile, HasPredictionsInMillisecondsAndBytes) {
  const auto json = written(cluster_, plan_with_fc_in(Precision::kBf16));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["model"], "small");
  EXPECT_EQ(json["predicted"],
            nlohmann::json::parse(R"({"step_ms": 3.0, "exchange_ms": 0.25,
                "indicator": 0.25, "kinds": [{"step_ms": 3.0, "waits_ms": 0.5,
                "peak_bytes": 30, "forward_bytes": 10, "backward_bytes": 30,
                "optimizer_bytes": 20}]})"));
  EXPECT_EQ(json["fastest"]["step_ms"], 2.0);
  EXPECT_EQ(json["fastest"]["indicator"], 0.5);
  EXPECT_EQ(json["uniform"].size(), 2u);
  EXPECT_EQ(json["uniform"]["f32"]["step_ms"], 4.0);
  EXPECT_EQ(json["uniform"]["bf16"]["indicator"], 0.75);
}

TEST_F(PlanFile, HasTheStepsFromTheFastestPlan) {
  const auto json = written(cluster_, plan_with_fc_in(Precision::kBf16));
  EXPECT_EQ(json["trade_offs"],
            nlohmann::json::parse(
                R"([{"layer": "", "kind": 0, "precision": "f32", "step_ms": 2.0,
                     "indicator": 0.5, "is_kept": true},
                    {"layer": "fc", "kind": 0, "precision": "bf16",
                     "step_ms": 3.0, "indicator": 0.25, "is_kept": false}])"));
}

TEST_F(PlanFile, IndicatorsThatAreUnknownAreNull) {
  ChosenPlan chosen = plan_with_fc_in(Precision::kF32);
  chosen.indicator = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(written(cluster_, chosen)["predicted"]["indicator"].is_null());
}

TEST_F(PlanFile, HasTheExchangeOfSeveralWorkers) {
  ChosenPlan chosen = plan_with_fc_in(Precision::kF32);
  chosen.exchange.plan = parse_exchange("half,fc=rank-dad:3");
  chosen.exchange.reasons["fc"] = "shorter";
  chosen.exchange.uniform = {{"gradients", 7'000'000}, {"half", 6'000'000}};
  EXPECT_FALSE(parse_exchange_of(plan_text(cluster_, chosen), "p"));
  cluster_.kinds[0].count = 2;
  EXPECT_EQ(parse_exchange_of(plan_text(cluster_, chosen), "p"),
            chosen.exchange.plan);
  const auto exchange = written(cluster_, chosen)["exchange"];
  EXPECT_EQ(exchange["default"], "half");
  EXPECT_EQ(exchange["layers"]["fc"], "rank-dad:3");
  EXPECT_EQ(exchange["reasons"]["fc"], "shorter");
  EXPECT_EQ(exchange["uniform_step_ms"]["gradients"], 7.0);
}

// The result of the planner itself, with exact and inexact methods.
TEST_F(PlanFile, PlansAreReadBack) {
  const Recorded wide = record(wide_model(), {Precision::kF32});
  const Cluster slow = four_hosts(wide, 0.1);
  ExchangeChoices inexact;
  inexact.routes = {Route::kHalf, Route::kRankDad};
  inexact.rank = 3;
  for (const auto& choices : {ExchangeChoices{}, inexact}) {
    PlannerOptions options;
    options.exchange = choices;
    const ChosenPlan chosen = choose_plan(slow, options);
    const std::string text = plan_text(slow, chosen);
    EXPECT_EQ(parse_exchange_of(text, "plan.json"), chosen.exchange.plan);
    EXPECT_EQ(parse_precision_plan(text, "plan.json").of("fc"),
              Precision::kF32);
    EXPECT_TRUE(
        nlohmann::json::parse(text)["exchange"]["reasons"].contains("fc"));
  }
}

}  // namespace
}  // namespace sheaf::plan
