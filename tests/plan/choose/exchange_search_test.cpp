#include "sheaf/plan/choose/exchange_search.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/plan/choose/clusters.hpp"

namespace sheaf::plan {
namespace {

class ExchangeSearches : public testing::Test {
 protected:
  ChosenExchange choose(const Cluster& cluster,
                        const ExchangeChoices& choices = {}) const {
    return choose_exchange(
        cluster, std::vector<PrecisionPlan>(cluster.kinds.size()), choices);
  }
  Cluster slow() const { return four_hosts(recorded_, 0.1); }
  static std::vector<std::string> uniform_names(const ChosenExchange& chosen) {
    std::vector<std::string> names;
    for (const auto& [name, ns] : chosen.uniform) names.push_back(name);
    return names;
  }
  using Names = std::vector<std::string>;
  Recorded recorded_ = record(wide_model(), {Precision::kF32});
};

// edad equals dad, because no layer is above fc.
TEST_F(ExchangeSearches, FactorsWhereTheLinkIsSlow) {
  const ChosenExchange chosen = choose(slow());
  EXPECT_EQ(to_string(chosen.plan), "gradients,fc=dad");
  EXPECT_EQ(uniform_names(chosen), (Names{"gradients", "dad"}));
  EXPECT_EQ(chosen.ns, chosen.uniform[1].second);
  ASSERT_EQ(chosen.reasons.size(), 1u);
  EXPECT_EQ(chosen.reasons.at("fc"),
            fmt::format("{:.2f} ms per step, {:.2f} with gradients",
                        1e-6 * static_cast<double>(chosen.ns),
                        1e-6 * static_cast<double>(chosen.uniform[0].second)));
}

TEST_F(ExchangeSearches, GradientsWhereTheLinkIsFast) {
  const ChosenExchange chosen = choose(four_hosts(recorded_, 100));
  EXPECT_EQ(to_string(chosen.plan), "gradients");
  EXPECT_EQ(chosen.ns, chosen.uniform[0].second);
  EXPECT_EQ(chosen.reasons.at("fc"),
            "products over all workers' rows would take longer");
}

// DadParallel rejects factors on mixed devices.
TEST_F(ExchangeSearches, NoFactorsBetweenAGpuAndACpu) {
  std::vector<StepProfile> profiles{recorded_.base()};
  profiles[0].model.device = "cpu";
  const Recorded cpu(std::move(profiles));
  Cluster mixed = slow();
  mixed.kinds[0].count = 2;
  mixed.kinds.push_back({&cpu, casts_of(cpu), 2, 1});
  const ChosenExchange chosen = choose(mixed);
  EXPECT_EQ(to_string(chosen.plan), "gradients");
  EXPECT_EQ(uniform_names(chosen), Names{"gradients"});
  EXPECT_EQ(chosen.reasons.at("fc"),
            "ranks on mixed devices can only exchange gradients");
}

TEST_F(ExchangeSearches, NoFactorsUnlessTheyAreAllowed) {
  const ChosenExchange chosen = choose(slow(), {.routes = {}});
  EXPECT_EQ(to_string(chosen.plan), "gradients");
  EXPECT_EQ(chosen.reasons.at("fc"), "no other exchange is allowed");
}

TEST_F(ExchangeSearches, InexactMethodsOnlyIfAllowed) {
  ExchangeChoices choices;
  choices.routes = {};
  EXPECT_EQ(to_string(choose(slow(), choices).plan), "gradients");
  choices.routes = {Route::kHalf};
  const ChosenExchange half = choose(slow(), choices);
  EXPECT_EQ(to_string(half.plan), "half");
  EXPECT_EQ(uniform_names(half), (Names{"gradients", "half"}));
}

TEST_F(ExchangeSearches, HalfIsCombinedWithFactors) {
  ExchangeChoices choices;
  choices.routes = {Route::kHalf, Route::kRankDad};
  choices.rank = 3;
  const ChosenExchange chosen = choose(slow(), choices);
  EXPECT_EQ(uniform_names(chosen), (Names{"gradients", "rank-dad:3", "half",
                                          "rank-dad:3, the rest half"}));
  EXPECT_EQ(chosen.plan.rank, 3);
  for (const auto& [name, ns] : chosen.uniform) EXPECT_LE(chosen.ns, ns);
}

// conv1 is a product here, with fc above it.
TEST_F(ExchangeSearches, EdadIsTriedWhereDeltasFollow) {
  const Recorded two = record({{"aten::linear", "conv1", {}, 500, 20},
                               {"aten::relu", "", {0}, 500, 5},
                               {"aten::linear", "fc", {1}, 1000, 200}},
                              {Precision::kF32});
  const ChosenExchange chosen = choose(four_hosts(two, 0.1));
  EXPECT_EQ(uniform_names(chosen), (Names{"gradients", "dad", "edad"}));
  EXPECT_TRUE(has_factors(chosen.plan.of("fc")));
  for (const auto& [name, ns] : chosen.uniform) EXPECT_LE(chosen.ns, ns);
}

TEST_F(ExchangeSearches, WeightsThatAreCastSendGradients) {
  const Recorded both =
      record(wide_model(), {Precision::kF32, Precision::kBf16});
  const ChosenExchange chosen = choose_exchange(
      four_hosts(both, 0.1), {plan_of({{"fc", Precision::kBf16}})}, {});
  EXPECT_EQ(to_string(chosen.plan), "gradients");
  EXPECT_EQ(uniform_names(chosen), Names{"gradients"});
  EXPECT_EQ(chosen.reasons.at("fc"),
            "its weight is cast, so only its gradient can be sent");
}

TEST_F(ExchangeSearches, ReasonsAreLeftOutOnRequest) {
  ExchangeChoices choices;
  choices.has_reasons = false;
  const ChosenExchange chosen = choose(slow(), choices);
  EXPECT_EQ(to_string(chosen.plan), "gradients,fc=dad");
  EXPECT_TRUE(chosen.reasons.empty());
}

// No method is cheaper than the cluster's own, which is not among the choices.
TEST_F(ExchangeSearches, StartsAlsoFromTheClustersPlan) {
  Cluster told = slow();
  told.exchange.routes = parse_exchange("gradients,fc=dad");
  ExchangeChoices choices;
  choices.routes = {};
  const ChosenExchange chosen = choose(told, choices);
  EXPECT_EQ(uniform_names(chosen), Names{"gradients"});
  EXPECT_EQ(to_string(chosen.plan), "gradients,fc=dad");
  EXPECT_LT(chosen.ns, chosen.uniform[0].second);
}

TEST_F(ExchangeSearches, OneWorkerExchangesNothing) {
  Cluster one = cluster_of(recorded_);
  one.exchange.routes = parse_exchange("edad");
  const ChosenExchange chosen = choose(one);
  EXPECT_EQ(to_string(chosen.plan), "edad");
  EXPECT_EQ(chosen.ns, 0);
  EXPECT_TRUE(chosen.uniform.empty());
}

TEST_F(ExchangeSearches, SpelledOutPlansNameLayersThatUseFactors) {
  const auto spelled = [&](const char* text) {
    return to_string(spelled_out(parse_exchange(text), recorded_.base()));
  };
  EXPECT_EQ(spelled("dad"), "gradients,fc=dad");
  EXPECT_EQ(spelled("half,fc=rank-dad:8"), "half,fc=rank-dad:8");
  EXPECT_EQ(spelled("dad,fc=gradients"), "gradients");
  EXPECT_EQ(spelled("edad,conv1=half"), "half,fc=edad");
}

}  // namespace
}  // namespace sheaf::plan
