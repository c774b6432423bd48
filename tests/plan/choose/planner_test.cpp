#include "sheaf/plan/choose/planner.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/choose/plan_file.hpp"
#include "sheaf/plan/choose/precision_search.hpp"
#include "sheaf/plan/predict/side_work.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

// A chain of layers with different costs; odd layers are slow in bf16.
std::vector<ModelOperator> chain(int layers) {
  std::vector<ModelOperator> model;
  for (int i = 0; i < layers; ++i) {
    std::vector<int> inputs;
    if (i > 0) inputs.push_back(2 * i - 1);
    model.push_back({"aten::conv2d", concat("c", i), inputs,
                     1e5 + 7e4 * (i % 3), 20.0 + 30 * (i % 4)});
    model.push_back({"aten::relu", "", {2 * i}, 1e5 + 7e4 * (i % 3), 5});
  }
  return model;
}

Recorded record(const std::vector<ModelOperator>& model,
                const std::vector<Precision>& precisions) {
  std::vector<StepProfile> profiles;
  for (const Precision one : precisions)
    profiles.push_back(read_profile(
        ModelTrace(model, uniform(one), true, /*host_us=*/2).write()));
  return Recorded(std::move(profiles));
}

Cluster cluster_of(const Recorded& recorded) {
  Cluster cluster;
  cluster.kinds.push_back({&recorded, casts_of(recorded), 1, 1});
  return cluster;
}

// Compares with all plans of seven layers.
TEST(FastestPlan, IsAsFastAsTheBestOfAll) {
  const auto model = chain(7);
  const std::vector<Precision> both = {Precision::kF32, Precision::kBf16};
  const Recorded recorded = record(model, both);
  const Cluster cluster = cluster_of(recorded);
  for (const double limit : {0.0, 0.75}) {
    PrecisionPlan all_high = uniform(Precision::kF32);
    const auto bytes = static_cast<std::int64_t>(
        limit * static_cast<double>(mix_memory(recorded, all_high).peak()));
    std::int64_t best = 0;
    for (int code = 0; code < 128; ++code) {
      PrecisionPlan plan;
      for (int i = 0; i < 7; ++i)
        plan.layers[concat("c", i)] =
            both[static_cast<std::size_t>((code >> i) & 1)];
      const ClusterStep step = predict_step(cluster, {plan});
      if (bytes > 0 && step.memory[0].peak() > bytes) continue;
      if (best == 0 || step.ns < best) best = step.ns;
    }
    FastestOptions options;
    options.precisions = both;
    options.memory_limit = bytes;
    const FastestPlan fastest =
        fastest_plan(recorded, cluster.kinds[0].casts, options);
    EXPECT_TRUE(fastest.is_exact);
    const ClusterStep step = predict_step(cluster, {fastest.plan});
    EXPECT_NEAR(static_cast<double>(step.ns) / static_cast<double>(best), 1,
                0.005)
        << limit;
    if (bytes > 0) EXPECT_LE(step.memory[0].peak(), bytes);
  }
  FastestOptions impossible;
  impossible.precisions = both;
  impossible.memory_limit = 1000;
  expect_throws<UsageError>(
      [&] { fastest_plan(recorded, cluster.kinds[0].casts, impossible); },
      {"no plan fits", "smallest"});
}

// The shortest step over all plans of these layers.
std::int64_t best_of_all(const Cluster& cluster,
                         const std::vector<std::string>& layers,
                         const std::vector<Precision>& precisions) {
  std::size_t plans = 1;
  for (std::size_t i = 0; i < layers.size(); ++i) plans *= precisions.size();
  std::int64_t best = 0;
  for (std::size_t code = 0; code < plans; ++code) {
    PrecisionPlan plan;
    std::size_t rest = code;
    for (const std::string& layer : layers) {
      plan.layers[layer] = precisions[rest % precisions.size()];
      rest /= precisions.size();
    }
    const std::int64_t ns = predict_step(cluster, {plan}).ns;
    if (best == 0 || ns < best) best = ns;
  }
  return best;
}

std::int64_t fastest_ns(const Cluster& cluster,
                        const std::vector<Precision>& precisions) {
  FastestOptions options;
  options.precisions = precisions;
  const WorkerKind& kind = cluster.kinds[0];
  const FastestPlan fastest = fastest_plan(*kind.recorded, kind.casts, options);
  EXPECT_TRUE(fastest.is_exact);
  return predict_step(cluster, {fastest.plan}).ns;
}

// Blocks as in ResNet: two products each and a skip connection, which in the
// second block has its own product. Small operators gain nothing from lower
// precision.
std::vector<ModelOperator> residual(double elements, double add_us) {
  std::vector<ModelOperator> model{{"aten::conv2d", "c0", {}, elements, 40}};
  const auto add = [&](const char* op, const char* layer,
                       std::vector<int> inputs, double us) {
    model.push_back({op, layer, std::move(inputs), elements, us});
    return static_cast<int>(model.size()) - 1;
  };
  const int a = add("aten::conv2d", "c1", {0}, 90);
  const int b = add("aten::relu", "", {a}, 4);
  const int c = add("aten::conv2d", "c2", {b}, 6);
  const int d = add("aten::add", "", {c, 0}, add_us);
  const int e = add("aten::conv2d", "c3", {d}, 70);
  const int f = add("aten::conv2d", "c4", {e}, 8);
  const int g = add("aten::conv2d", "c5", {d}, 50);
  const int h = add("aten::add", "", {f, g}, add_us);
  add("aten::relu", "", {h}, 4);
  return model;
}

// All plans of six layers and three precisions, with tensors for which casts
// and type promotions are cheap, expensive, and in between.
TEST(FastestPlan, IsTheBestOfAllWithSkips) {
  const std::vector<Precision> three = {Precision::kF32, Precision::kBf16,
                                        Precision::kF16};
  for (const double elements : {1e5, 6e5, 2e6}) {
    const Recorded recorded = record(residual(elements, 5), three);
    const Cluster cluster = cluster_of(recorded);
    const std::int64_t best =
        best_of_all(cluster, {"c0", "c1", "c2", "c3", "c4", "c5"}, three);
    EXPECT_NEAR(static_cast<double>(fastest_ns(cluster, three)) /
                    static_cast<double>(best),
                1, 0.005)
        << elements;
  }
}

// Two branches from f32 to f32: `a` alone would gain from lower precision,
// except for the sum in which it is then promoted together with `b`.
TEST(FastestPlan, CountsWhereUnlikeTypesMeet) {
  const std::vector<Precision> both = {Precision::kF32, Precision::kBf16};
  for (const double elements : {1e5, 5e5, 1e6}) {
    const std::vector<ModelOperator> model = {
        {"aten::conv2d", "stem", {}, 1e5, 10},
        {"aten::softmax", "", {0}, 1e5, 5, true},
        {"aten::conv2d", "a", {1}, elements, 40},
        {"aten::conv2d", "b", {1}, elements, 5},
        {"aten::add", "", {2, 3}, elements, 5},
        {"aten::softmax", "", {4}, elements, 5, true},
        {"aten::linear", "c", {5}, 1e5, 30}};
    const Recorded recorded = record(model, both);
    const Cluster cluster = cluster_of(recorded);
    const std::int64_t best =
        best_of_all(cluster, {"stem", "a", "b", "c"}, both);
    EXPECT_NEAR(static_cast<double>(fastest_ns(cluster, both)) /
                    static_cast<double>(best),
                1, 0.005)
        << elements;
  }
}

// One weight used in three calls; bf16 pays off in two of them.
TEST(FastestPlan, SharedLayersHaveOnePrecision) {
  const std::vector<Precision> both = {Precision::kF32, Precision::kBf16};
  for (const double last_elements : {1e5, 4e6}) {
    std::vector<ModelOperator> model = {
        {"aten::conv2d", "c0", {}, 1e5, 60},
        {"aten::relu", "", {0}, 1e5, 5},
        {"aten::linear", "shared", {1}, 1e5, 60},
        {"aten::softmax", "", {2}, 1e5, 5, true},
        {"aten::linear", "shared", {3}, 1e5, 40},
        {"aten::softmax", "", {4}, last_elements, 20, true},
        {"aten::linear", "shared", {5}, last_elements, 20},
        {"aten::softmax", "", {6}, last_elements, 20, true},
        {"aten::linear", "c1", {7}, 1e5, 60}};
    const Recorded recorded = record(model, both);
    const Cluster cluster = cluster_of(recorded);
    const std::int64_t best =
        best_of_all(cluster, {"c0", "shared", "c1"}, both);
    EXPECT_NEAR(static_cast<double>(fastest_ns(cluster, both)) /
                    static_cast<double>(best),
                1, 0.005)
        << last_elements;
    FastestOptions options;
    options.precisions = both;
    const FastestPlan fastest =
        fastest_plan(recorded, cluster.kinds[0].casts, options);
    // The estimate matches the plan: a layer is not counted twice.
    double work = 0;
    for (const double ns :
         mixed_work_ns(mix_step(recorded, fastest.plan, cluster.kinds[0].casts),
                       recorded.graph().slots.size()))
      work += ns;
    EXPECT_NEAR(fastest.work_ns / work, 1, 0.01) << last_elements;
  }
}

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
  const auto json = nlohmann::json::parse(plan_text(cluster, chosen));
  EXPECT_EQ(json["devices"][1]["precision"]["layers"]["conv2"], "bf16");
  EXPECT_EQ(json["devices"].size(), 2u);
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
  EXPECT_EQ(chosen.reasons[0].at("conv2"), "given by the user");
  options.precisions = {Precision::kF16};
  expect_throws<UsageError>([&] { choose_plan(cluster_of(recorded), options); },
                            {"none of the precisions"});
}

// fc has a weight of 500 x 1,000, 2 MB, with one row on each worker.
std::vector<ModelOperator> wide_model() {
  auto model = small_model();
  model.back().elements = 1000;
  return model;
}

Cluster four_hosts(const Recorded& recorded, double network_gbs) {
  Cluster cluster = cluster_of(recorded);
  cluster.kinds[0].count = 4;
  cluster.placement = topo::placement_of(topo::Dims{{1, 4}});
  cluster.machine.network = {1, network_gbs};
  return cluster;
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
  told.exchange.ways = parse_exchange("gradients,fc=dad");
  EXPECT_EQ(predict_step(told, chosen.plans).ns, chosen.step.ns);
}

TEST(PlannedExchange, GradientsWhereTheLinkIsFast) {
  const Recorded recorded = record(wide_model(), {Precision::kF32});
  const ChosenPlan chosen = choose_plan(four_hosts(recorded, 100), {});
  EXPECT_EQ(to_string(chosen.exchange.plan), "gradients");
  EXPECT_EQ(chosen.step.ns, chosen.exchange.uniform[0].second);
  EXPECT_EQ(chosen.exchange.reasons.at("fc"),
            "products over all workers' rows would take longer");
}

// DadParallel rejects factors on mixed devices.
TEST(PlannedExchange, NoFactorsBetweenAGpuAndACpu) {
  const Recorded gpu = record(wide_model(), {Precision::kF32});
  std::vector<StepProfile> profiles{gpu.base()};
  profiles[0].model.device = "cpu";
  const Recorded cpu(std::move(profiles));
  Cluster slow = four_hosts(gpu, 0.1);
  slow.kinds.push_back({&cpu, casts_of(cpu), 2, 1});
  slow.kinds[0].count = 2;
  EXPECT_EQ(to_string(choose_plan(slow, {}).exchange.plan), "gradients");
}

TEST(PlannedExchange, InexactWaysOnlyWhereTheyAreAllowed) {
  const Recorded recorded = record(wide_model(), {Precision::kF32});
  const Cluster slow = four_hosts(recorded, 0.1);
  PlannerOptions options;
  options.exchange->ways = {};
  EXPECT_EQ(to_string(choose_plan(slow, options).exchange.plan), "gradients");
  options.exchange->ways = {Exchange::kHalf};
  EXPECT_EQ(to_string(choose_plan(slow, options).exchange.plan), "half");
  options.exchange.reset();
  Cluster told = slow;
  told.exchange.ways = parse_exchange("dad");
  EXPECT_EQ(to_string(choose_plan(told, options).exchange.plan),
            "gradients,fc=dad");
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

TEST(PlannedExchange, IsInTheFile) {
  const Recorded recorded = record(wide_model(), {Precision::kF32});
  const Cluster slow = four_hosts(recorded, 0.1);
  PlannerOptions options;
  options.exchange->ways = {Exchange::kHalf, Exchange::kRankDad};
  options.exchange->rank = 3;
  for (const auto& choices : {ExchangeChoices{}, *options.exchange}) {
    options.exchange = choices;
    const ChosenPlan chosen = choose_plan(slow, options);
    const std::string text = plan_text(slow, chosen);
    EXPECT_EQ(parse_exchange_of(text, "plan.json"), chosen.exchange.plan);
    EXPECT_EQ(parse_precision_plan(text, "plan.json").of("fc"),
              Precision::kF32);
    EXPECT_TRUE(
        nlohmann::json::parse(text)["exchange"]["reasons"].contains("fc"));
  }
  const Cluster one = cluster_of(recorded);
  EXPECT_FALSE(
      parse_exchange_of(plan_text(one, choose_plan(one, {})), "plan.json"));
}

}  // namespace
}  // namespace sheaf::plan
