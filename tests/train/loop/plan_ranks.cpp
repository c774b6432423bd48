// Runs whose plan sets the exchange of each layer.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "tests/support/world.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

using test::world;

std::string plan_file(const SharedFolder& folder, const std::string& name,
                      const std::string& exchange) {
  const std::string place = folder / (name + ".plan.json");
  if (world().rank() == 0)
    std::ofstream(place)
        << R"({"version": 1, "precision": {"other": "f32", "layers": {}})"
        << (exchange.empty() ? "" : ", \"exchange\": " + exchange) << "}";
  comm::barrier(world()).wait();
  return place;
}

// Layers 0 and 2 of 16 x 96 and 96 x 3, at most four rows per rank.
RunConfig wide_run(std::vector<std::string> sets = {}) {
  sets.push_back("network={name: mlp, arguments: {sizes: [16, 96, 3]}}");
  return small_run(sets);
}

// Bytes sent by rank 0 in all steps of this run; available on rank 0.
double bytes_of(const std::string& folder) {
  double sum = 0;
  for (const std::string& line : lines_in(folder + "/log.jsonl"))
    if (const auto row = nlohmann::json::parse(line); row["kind"] == "batch")
      sum += row["bytes_sent"].get<double>();
  return sum;
}

std::map<std::string, std::string> routes_of(const std::string& folder) {
  std::map<std::string, std::string> routes;
  std::ifstream file(folder + "/routes.json");
  if (!file) return routes;
  const auto json = nlohmann::json::parse(file);
  for (const auto& one : json["layers"]) routes[one["name"]] = one["route"];
  return routes;
}

constexpr const char* kMixed =
    R"({"default": "gradients", "layers": {"0": "dad"}})";

TEST(PlannedExchange, ExactMethodsGiveTheWeightsOfGradients) {
  const SharedFolder folder(world());
  const auto plain = run_in(world(), folder / "plain", wide_run());
  for (const auto& [name, exchange] : std::map<std::string, std::string>{
           {"mixed", kMixed},
           {"edad", R"({"layers": {"0": "edad", "2": "dad"}})"},
           {"all", R"({"default": "dad"})"},
           {"none", R"({"default": "gradients"})"},
           {"untold", ""}}) {
    const std::string plan = plan_file(folder, name, exchange);
    const auto result =
        run_in(world(), folder / name, wide_run({"plan=" + plan}));
    // Twelve steps in f32: sums of numbers below 1 in a different order.
    EXPECT_LT(largest_difference(plain.weights, result.weights), 1e-5) << name;
    if (world().rank() != 0 || world().size() == 1) continue;
    const auto routes = routes_of(folder / name);
    if (name == "none" || name == "untold") {
      EXPECT_TRUE(routes.empty()) << name;
      EXPECT_EQ(bytes_of(folder / name), bytes_of(folder / "plain")) << name;
      continue;
    }
    // 16 x 96 numbers against at most 4 rows of 16 + 96.
    EXPECT_LT(bytes_of(folder / name), 0.6 * bytes_of(folder / "plain"))
        << name;
    EXPECT_EQ(routes.at("0.weight"), name == "edad" ? "edad" : "dad");
    EXPECT_EQ(routes.at("0.bias"), "with its weight");
    EXPECT_EQ(routes.at("2.weight"), name == "mixed" ? "gradient" : "dad");
  }
}

// One step on all 22 examples from the same weights: the change is the learning
// rate times the gradient.
RunConfig one_step(std::vector<std::string> sets = {}) {
  sets.insert(sets.end(), {"epochs=1", "global_batch=22"});
  return wide_run(sets);
}

torch::Tensor change_of(const RunResult& result, std::size_t i) {
  const auto before = tensor::state_dict(*make_model(one_step()).module);
  EXPECT_EQ(before.at(i).first, result.weights.at(i).first);
  return result.weights[i].second - before[i].second;
}

TEST(PlannedExchange, HalfPrecisionRoundsGradients) {
  if (world().size() == 1) GTEST_SKIP() << "nothing is exchanged";
  const SharedFolder folder(world());
  const auto plain = run_in(world(), folder / "plain", one_step());
  const std::string plan = plan_file(
      folder, "half", R"({"default": "half", "layers": {"0": "dad"}})");
  const auto half =
      run_in(world(), folder / "half", one_step({"plan=" + plan}));
  EXPECT_FALSE(has_same_bits(plain.weights, half.weights));
  // Layer 2 uses half: each rank's gradient and the average have errors of at
  // most 2^-11 of their size, and ranks' gradients, from a few rows, may be
  // several times larger than their average. Layer 0 is exact except for the
  // order of sums in f32.
  for (std::size_t i = 0; i < plain.weights.size(); ++i) {
    const bool is_half = plain.weights[i].first.starts_with("2.");
    const torch::Tensor wanted = change_of(plain, i);
    const double size = wanted.abs().max().item<double>();
    ASSERT_GT(size, 1e-4);
    EXPECT_LT(largest_difference(change_of(half, i), wanted),
              is_half ? 8 * size / 2048 : 1e-6)
        << plain.weights[i].first;
  }
  if (world().rank() == 0) {
    EXPECT_LT(bytes_of(folder / "half"), bytes_of(folder / "plain"));
  }
}

// Each rank sends the best rank-2 approximation of its own gradient.
TEST(PlannedExchange, LowRankIsOfThatRank) {
  if (world().size() == 1) GTEST_SKIP() << "nothing is exchanged";
  const SharedFolder folder(world());
  const auto plain = run_in(world(), folder / "plain", one_step());
  const std::string plan =
      plan_file(folder, "low", R"({"layers": {"0": "rank-dad:2"}})");
  const auto low = run_in(world(), folder / "low", one_step({"plan=" + plan}));
  ASSERT_EQ(low.weights[0].first, "0.weight");
  const torch::Tensor wanted = change_of(plain, 0);
  const torch::Tensor found = change_of(low, 0);
  const torch::Tensor values = at::linalg_svdvals(found.to(torch::kDouble));
  const std::int64_t rank = 2 * world().size();
  EXPECT_GT(values[rank - 1].item<double>(), 1e-5);
  // Rounding errors of f32.
  EXPECT_LT(values[rank].item<double>(), 1e-6);
  // The approximation is closer to the gradient than zero is.
  EXPECT_LT((found - wanted).norm().item<double>(),
            0.9 * wanted.norm().item<double>());
  if (world().rank() == 0) {
    EXPECT_LT(bytes_of(folder / "low"), 0.5 * bytes_of(folder / "plain"));
  }
}

// The plan overrides the config, except that dad.first_layer still keeps raw
// data on its rank.
TEST(PlannedExchange, OverridesTheConfig) {
  if (world().size() == 1) return;
  const SharedFolder folder(world());
  const std::string plan = "plan=" + plan_file(folder, "a", kMixed);
  const auto routes_with = [&](const char* name,
                               std::vector<std::string> sets) {
    sets.push_back(plan);
    run_in(world(), folder / name, wide_run(sets));
    return routes_of(folder / name);
  };
  const auto told = routes_with("auto", {"parallel.strategy=auto"});
  const auto closed = routes_with("closed", {"dad.first_layer=gradient"});
  const auto half = routes_with("half", {"parallel.compression=f16"});
  if (world().rank() != 0) return;
  EXPECT_EQ(told.at("0.weight"), "dad");
  EXPECT_EQ(told.at("2.weight"), "gradient");
  EXPECT_EQ(half.at("0.weight"), "dad");
  EXPECT_EQ(closed.at("0.weight"), "gradient");
}

}  // namespace
}  // namespace sheaf::train
