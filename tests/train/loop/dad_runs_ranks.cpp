// Strategies that exchange factors, selected by configs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/base/files.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "sheaf/train/setup/plan_setup.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/world.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::world;

// Layers of 16 x 40 and 40 x 3; at most 8 rows over all ranks.
RunConfig factor_run(std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(),
              {"network={name: mlp, arguments: {sizes: [16, 40, 3]}}",
               "precision=f64"});
  return small_run(sets);
}

// Bytes sent by rank 0 in all steps; available on rank 0.
double sent_bytes(const std::string& folder) {
  double sum = 0;
  for (const std::string& line : lines_in(folder + "/log.jsonl"))
    if (const json row = json::parse(line); row["kind"] == "batch")
      sum += row["bytes_sent"].get<double>();
  return sum;
}

// Factors of at most 8 rows have a rank of at most 8.
TEST(DadRuns, ExactStrategiesTakeTheStepsOfGradients) {
  const SharedFolder folder(world());
  const auto plain = run_in(world(), folder / "plain", factor_run());
  for (const char* sets : {"strategy: dad", "strategy: edad", "strategy: auto",
                           "strategy: rank-dad"}) {
    SCOPED_TRACE(sets);
    const std::string name = std::string(sets).substr(10);
    const auto result =
        run_in(world(), folder / name,
               factor_run({concat("parallel={", sets, "}"), "dad.rank=8",
                           "dad.feedback_rows=0"}));
    // The order of sums differs; a decomposition adds an error of about 1e-15
    // per step.
    EXPECT_LT(largest_difference(plain.weights, result.weights), 1e-11);
    if (world().size() == 1 || world().rank() != 0) continue;
    const json routes =
        json::parse(read_whole(folder / (name + "/routes.json")));
    ASSERT_EQ(routes["layers"][0]["name"], "0.weight");
    if (name != "auto") {
      EXPECT_EQ(routes["layers"][0]["route"], name);
    }
  }
}

// The change in the first step is the learning rate times a sum of rank-1
// gradients, one from each rank.
TEST(DadRuns, RankDadSendsTheRankThatIsAskedFor) {
  const SharedFolder folder(world());
  for (const char* iterations : {"0", "20"}) {
    SCOPED_TRACE(iterations);
    const RunConfig config = factor_run(
        {"parallel.strategy=rank-dad", "dad.rank=1", "epochs=1",
         "global_batch=22", concat("dad.power_iterations=", iterations)});
    const auto before = tensor::state_dict(*make_model(config).module);
    const auto result = run_in(world(), folder / iterations, config);
    ASSERT_EQ(result.steps, 1);
    ASSERT_EQ(before[0].first, "0.weight");
    const at::Tensor change =
        result.weights[0].second - before[0].second.to(torch::kDouble);
    const at::Tensor values = at::linalg_svdvals(change);
    const std::int64_t ranks = world().size();
    EXPECT_GT(values[ranks - 1].item<double>(), 1e-8);
    if (ranks > 1) {
      EXPECT_LT(values[ranks].item<double>(), 1e-12);
    }
  }
}

// The power iteration of dad_torch converges to the same factors.
TEST(DadRuns, PowerIterationsComeCloseToTheDecomposition) {
  if (world().size() == 1) GTEST_SKIP() << "nothing is exchanged";
  const SharedFolder folder(world());
  const auto with = [&](const char* iterations) {
    return run_in(world(), folder / iterations,
                  factor_run({"parallel.strategy=rank-dad", "dad.rank=1",
                              "epochs=1", "global_batch=22",
                              concat("dad.power_iterations=", iterations)}));
  };
  const auto exact = with("0"), few = with("1"), many = with("400");
  const double near = largest_difference(exact.weights, many.weights);
  const double far = largest_difference(exact.weights, few.weights);
  EXPECT_GT(far, 0);
  EXPECT_LT(near, far);
  EXPECT_LT(near, 1e-9);
}

// One step: gradients differ by rounding both factors to 2^-11 (f16) or 2^-8
// (bf16) of their size, and numbers take half the bytes.
TEST(DadRuns, TheWireRoundsFactors) {
  if (world().size() == 1) GTEST_SKIP() << "nothing is exchanged";
  const SharedFolder folder(world());
  const auto with = [&](const std::string& wire) {
    return run_in(
        world(), folder / wire,
        factor_run({"parallel.strategy=dad", "epochs=1", "global_batch=22",
                    "dad.zeros=send", "dad.wire=" + wire}));
  };
  const auto plain = with("none");
  const auto before = tensor::state_dict(*make_model(factor_run()).module);
  for (const auto& [wire, unit] : std::vector<std::pair<std::string, double>>{
           {"f16", 1.0 / 2048}, {"bf16", 1.0 / 256}}) {
    const auto rounded = with(wire);
    EXPECT_FALSE(has_same_bits(plain.weights, rounded.weights)) << wire;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double step =
          (plain.weights[i].second - before[i].second.to(torch::kDouble))
              .abs()
              .max()
              .item<double>();
      // A sum of 22 products whose terms may be larger than the sum.
      EXPECT_LT(largest_difference(plain.weights[i].second,
                                   rounded.weights[i].second),
                22 * 2 * unit * step)
          << wire << " " << before[i].first;
    }
    if (world().rank() == 0) {
      EXPECT_LT(sent_bytes(folder / wire), 0.5 * sent_bytes(folder / "none"));
    }
  }
}

TEST(DadRuns, LayersAreLoggedWhereTheyAreAskedFor) {
  if (world().size() == 1) GTEST_SKIP() << "nothing is exchanged";
  const SharedFolder folder(world());
  for (const bool is_on : {false, true}) {
    const std::string place = folder / (is_on ? "on" : "off");
    run_in(world(), place,
           factor_run({"parallel.strategy=dad",
                       concat("dad.log_layers=", is_on ? "true" : "false")}));
    if (world().rank() != 0) continue;
    int rows = 0;
    double sum = 0, sent = 0;
    for (const std::string& line : lines_in(place + "/log.jsonl")) {
      const json row = json::parse(line);
      if (row["kind"] == "batch") sent += row["bytes_sent"].get<double>();
      if (row["kind"] != "layers") continue;
      ++rows;
      EXPECT_EQ(row["layers"].size(), 2u);
      for (const json& layer : row["layers"]) {
        EXPECT_EQ(layer["route"], "dad");
        EXPECT_GT(layer["rank"], 0);
        sum += layer["bytes"].get<double>();
      }
    }
    EXPECT_EQ(rows, is_on ? 12 : 0);
    if (is_on) {
      EXPECT_GT(sum, 0);
      EXPECT_LE(sum, sent);
    }
  }
}

std::string copy_of(const std::string& from, const std::string& to) {
  if (world().rank() == 0)
    fs::copy(from, to,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  comm::barrier(world()).wait();
  return to;
}

// Routes that auto has measured in a run are used after it is resumed, too: the
// steps are the same, bit for bit.
TEST(DadRuns, AResumedRunHasTheRoutesOfTheFirst) {
  if (world().size() == 1) GTEST_SKIP() << "nothing is exchanged";
  const SharedFolder folder(world());
  const std::vector<std::string> sets{"parallel.strategy=auto",
                                      "dad.low_rank=true", "dad.rank=1",
                                      "precision=f32", "schedule=constant"};
  auto longer = sets;
  longer.push_back("epochs=8");
  run_in(world(), folder / "a", factor_run(sets));
  const auto routes = [&](const std::string& place) {
    return read_whole(place + "/dad_plan.json");
  };
  comm::barrier(world()).wait();
  const std::string before = routes(folder / "a");
  std::vector<RunResult> results;
  for (const char* name : {"b", "c"}) {
    const std::string place = copy_of(folder / "a", folder / name);
    results.push_back(
        run_in(world(), place, factor_run(longer), {.is_resumed = true}));
    comm::barrier(world()).wait();
    EXPECT_EQ(routes(place), before) << name;
  }
  EXPECT_TRUE(has_same_bits(results[0].weights, results[1].weights));
}

TEST(DadRuns, ARerunCanRepeatTheRoutes) {
  if (world().size() == 1) GTEST_SKIP() << "nothing is exchanged";
  const SharedFolder folder(world());
  const std::string file = folder / "routes.json";
  parallel::FixedRoutes routes;
  for (const char* name : {"0.weight", "0.bias", "2.weight", "2.bias"})
    routes.by_name[name] = parallel::Route::kGradient;
  routes.by_name["0.weight"] = parallel::Route::kEdad;
  routes.by_name["2.weight"] = parallel::Route::kDad;
  if (world().rank() == 0) write_file_atomically(file, routes_text(routes));
  comm::barrier(world()).wait();
  std::vector<RunResult> results;
  for (const char* name : {"a", "b"}) {
    results.push_back(
        run_in(world(), folder / name,
               factor_run({"parallel.strategy=auto", "dad.plan=" + file})));
    if (world().rank() != 0) continue;
    const json told =
        json::parse(read_whole(folder / (std::string(name) + "/routes.json")));
    EXPECT_EQ(told["layers"][0]["route"], "edad");
    EXPECT_EQ(told["layers"][2]["route"], "dad");
    EXPECT_EQ(read_whole(folder / (std::string(name) + "/dad_plan.json")),
              routes_text(routes));
  }
  EXPECT_TRUE(has_same_bits(results[0].weights, results[1].weights));
}

TEST(DadRuns, APlanOfAnotherNetworkIsRefused) {
  const SharedFolder folder(world());
  const std::string file = folder / "routes.json";
  if (world().rank() == 0)
    write_file_atomically(file,
                          R"({"skips_zeros": false, "routes": {"x": "dad"}})");
  comm::barrier(world()).wait();
  const auto start = [&] {
    run_in(world(), folder / "a",
           factor_run({"parallel.strategy=auto", "dad.plan=" + file}));
  };
  const auto expect_refused = [](const auto& body) {
    if (world().rank() == 0)
      expect_throws<UsageError>(body, {"has no route for 0.weight"});
    else
      EXPECT_THROW(body(), FailedOnRoot);
  };
  expect_refused(start);
  EXPECT_FALSE(fs::exists(folder / "a"));
  // Resuming a run with this plan leaves the run unchanged.
  const std::string place = folder / "b";
  const std::vector<std::string> sets{"parallel.strategy=auto",
                                      "output.trace=true"};
  run_in(world(), place, factor_run(sets));
  comm::barrier(world()).wait();
  const auto before = content_of(place);
  comm::barrier(world()).wait();
  auto more = sets;
  more.insert(more.end(), {"dad.plan=" + file, "epochs=6"});
  expect_refused([&] {
    run_in(world(), place, factor_run(more),
           {.is_resumed = true, .accepts_changes = true});
  });
  expect_untouched(before, place);
  EXPECT_THROW(parse_routes("{}", "a.json"), UsageError);
  EXPECT_THROW(
      parse_routes(R"({"skips_zeros": true, "routes": {"x": "fast"}})", "a"),
      UsageError);
}

}  // namespace
}  // namespace sheaf::train
