#include "sheaf/plan/choose/precision_search.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/predict/side_work.hpp"
#include "tests/plan/choose/clusters.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

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
TEST(FastestPlan, CountsCastsBetweenDifferentTypes) {
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

FastestOptions both_precisions() {
  FastestOptions options;
  options.precisions = {Precision::kF32, Precision::kBf16};
  return options;
}

TEST(FastestPlan, FixedLayersKeepTheirPrecision) {
  const Recorded recorded =
      record(small_model(), {Precision::kF32, Precision::kBf16});
  const CastCosts casts = casts_of(recorded);
  FastestOptions options = both_precisions();
  EXPECT_EQ(fastest_plan(recorded, casts, options).plan.of("conv2"),
            Precision::kBf16);
  options.fixed = plan_of({{"conv2", Precision::kF32}});
  options.fixed.other = Precision::kBf16;
  const FastestPlan fastest = fastest_plan(recorded, casts, options);
  EXPECT_EQ(fastest.plan.of("conv2"), Precision::kF32);
  EXPECT_EQ(fastest.plan.other, Precision::kBf16);
  EXPECT_EQ(fastest.plan.layers.size(), 3u);
}

// In the trace's own precision there are no casts: the time is its work.
TEST(FastestPlan, OfOnePrecisionTakesTheWorkOfItsTrace) {
  const Recorded recorded = record(chain(4), {Precision::kF32});
  FastestOptions options;
  options.precisions = {Precision::kF32};
  double work = 0;
  for (const double ns : slot_work_ns(recorded.base())) work += ns;
  const FastestPlan fastest =
      fastest_plan(recorded, casts_of(recorded), options);
  EXPECT_GT(work, 0);
  EXPECT_DOUBLE_EQ(fastest.work_ns, work);
  EXPECT_TRUE(fastest.is_exact);
}

// Skip connections need states of two results, of which most are dropped.
TEST(FastestPlan, MayNotBeOptimalWithFewStates) {
  const Recorded recorded =
      record(residual(6e5, 5), {Precision::kF32, Precision::kBf16});
  const CastCosts casts = casts_of(recorded);
  FastestOptions options = both_precisions();
  const FastestPlan exact = fastest_plan(recorded, casts, options);
  EXPECT_TRUE(exact.is_exact);
  options.most_states = 1;
  const FastestPlan rough = fastest_plan(recorded, casts, options);
  EXPECT_FALSE(rough.is_exact);
  EXPECT_GE(rough.work_ns, exact.work_ns);
  EXPECT_EQ(rough.plan.layers.size(), 6u);
}

// A layer between operators that compute in f32: bf16 saves 12 us, and casting
// its large result back costs more. With one state, the search drops f32 before
// it sees that.
TEST(FastestPlan, KeepsNoMoreStatesThanAllowed) {
  const Recorded recorded = record({{"aten::conv2d", "stem", {}, 1e5, 10},
                                    {"aten::softmax", "", {0}, 1e5, 5, true},
                                    {"aten::conv2d", "a", {1}, 1e6, 20},
                                    {"aten::softmax", "", {2}, 1e6, 5, true}},
                                   {Precision::kF32, Precision::kBf16});
  FastestOptions options = both_precisions();
  for (const std::size_t states : {1, 2}) {
    options.most_states = states;
    const FastestPlan fastest =
        fastest_plan(recorded, casts_of(recorded), options);
    EXPECT_EQ(fastest.is_exact, states == 2);
    EXPECT_EQ(fastest.plan.layers.at("a"),
              states == 2 ? Precision::kF32 : Precision::kBf16);
  }
}

TEST(FastestPlan, NeedsAPrecisionWithATrace) {
  const Recorded recorded = record(chain(1), {Precision::kF32});
  expect_throws<UsageError>([&] { fastest_plan(recorded, {}, {}); },
                            {"no precisions to choose from"});
  expect_throws<UsageError>(
      [&] { fastest_plan(recorded, {}, both_precisions()); },
      {"no trace with layers in bf16"});
}

}  // namespace
}  // namespace sheaf::plan
