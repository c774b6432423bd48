// Runs whose plan tells what ranks exchange of each layer.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/train/trainer.hpp"
#include "tests/support/world.hpp"
#include "tests/train/runs.hpp"

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

// Layers 0 and 2 of 16 x 96 and 96 x 3, four rows of each rank or less.
RunConfig wide_run(std::vector<std::string> sets = {}) {
  sets.push_back("network={name: mlp, arguments: {sizes: [16, 96, 3]}}");
  return small_run(sets);
}

// Of all steps of this run, from rank 0; known to rank 0.
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

TEST(PlannedExchange, ExactWaysGiveTheWeightsOfGradients) {
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
    // Twelve steps in f32: sums in another order, of numbers below 1.
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

TEST(PlannedExchange, InexactWaysAreClose) {
  const SharedFolder folder(world());
  const auto plain = run_in(world(), folder / "plain", wide_run());
  for (const auto& [name, exchange] : std::map<std::string, std::string>{
           {"half", R"({"default": "half", "layers": {"0": "dad"}})"},
           {"low", R"({"layers": {"0": "rank-dad:2"}})"}}) {
    const std::string plan = plan_file(folder, name, exchange);
    const auto result =
        run_in(world(), folder / name, wide_run({"plan=" + plan}));
    EXPECT_LT(largest_difference(plain.weights, result.weights), 0.1) << name;
    if (world().size() == 1) continue;
    EXPECT_FALSE(has_same_bits(plain.weights, result.weights)) << name;
    if (world().rank() == 0) {
      EXPECT_LT(bytes_of(folder / name), 0.5 * bytes_of(folder / "plain"))
          << name;
    }
  }
}

// The plan goes before the description, but data that are to stay at home do.
TEST(PlannedExchange, GoesBeforeTheDescription) {
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
