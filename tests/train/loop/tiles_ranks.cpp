// Runs whose images are split over ranks: what they read and save.
#include <gtest/gtest.h>

#include "sheaf/train/loop/trainer.hpp"
#include "tests/support/world.hpp"
#include "tests/train/loop/gb_runs.hpp"

namespace sheaf::train {
namespace {

using test::world;

// A grid with one place per rank.
std::string grid_of_all() {
  const int ranks = world().size();
  return ranks == 4 ? "2x2" : std::to_string(ranks) + "x1";
}

// Images of 9 x 7, so that no split is even; `input` is their transformed
// shape.
RunConfig tiled_run(std::vector<std::string> sets, const std::string& grid,
                    const std::string& input = "2x9x7") {
  const std::string network =
      "network={name: layers, arguments: {input: " + input +
      "}, layers: [conv2d: {out_channels: 4, kernel: 3, padding: 1}, "
      "batchnorm, relu, conv2d: {out_channels: 3, kernel: 3}, relu, flatten, "
      "linear: {out_features: 3}]}";
  sets.insert(sets.begin(),
              {"precision=f64", "epochs=2", network,
               "data.arguments={examples: 22, test_examples: 10, classes: 3, "
               "shape: [2, 9, 7]}"});
  if (!grid.empty()) {
    sets.push_back("parallel.strategy=spatial");
    sets.push_back("parallel.grid=" + grid);
  }
  return small_run(sets);
}

comm::Group each_alone() { return world().split(/*color=*/world().rank()); }

const char* const kMoves =
    "data.transforms=[random_crop: {height: 9, width: 7, padding: 2}, "
    "horizontal_flip, normalize: {mean: [0.4], std: [0.3]}]";

TEST(TiledRuns, GiveWhatOneRankGives) {
  const comm::Group single = each_alone();
  const std::vector<std::pair<std::string, std::string>> cases{
      {"data.transforms=[]", "2x9x7"},
      {kMoves, "2x9x7"},
      {"data.transforms=[resize: {size: 8}]", "2x8x8"}};
  for (const auto& [transforms, input] : cases) {
    const SharedFolder folder(world());
    const auto together = run_in(world(), folder / "a",
                                 tiled_run({transforms}, grid_of_all(), input));
    const auto one =
        run_in(single, folder / ("one" + std::to_string(world().rank())),
               tiled_run({transforms}, "", input));
    EXPECT_LT(largest_difference(together.weights, one.weights), 1e-10)
        << transforms;
    EXPECT_NEAR(together.test->loss, one.test->loss, 1e-10);
    EXPECT_EQ(together.test->accuracy, one.test->accuracy);
  }
}

// Targets with one element per pixel: classes, and images.
TEST(TiledRuns, LearnPixels) {
  const comm::Group single = each_alone();
  const std::vector<std::vector<std::string>> cases{
      {"loss=cross_entropy", "3"}, {"loss=mse", "2"}, {"loss=mse", "flat"}};
  for (const auto& one : cases) {
    const bool is_flat = one[1] == "flat";
    const std::string last =
        is_flat ? "flatten, linear: {out_features: 126}, reshape: {shape: "
                  "[2, 9, 7]}"
                : "conv2d: {out_channels: " + one[1] + ", kernel: 1}";
    const std::vector<std::string> sets{
        "precision=f64", "epochs=2", one[0],
        "network={name: layers, arguments: {input: 2x9x7}, layers: [conv2d: "
        "{out_channels: 4, kernel: 3, padding: 1}, tanh, " +
            last + "]}"};
    torch::manual_seed(7);
    const torch::Tensor images = torch::rand({22, 2, 9, 7}, torch::kDouble);
    const torch::Tensor target =
        one[1] == "3" ? images.sum(1).floor().clamp_max(2).to(torch::kLong)
                      : images.flip(3);
    TrainOptions options;
    options.data.emplace();
    options.data->train = std::make_shared<data::TensorDataset>(images, target);
    options.data->test = options.data->train;
    const SharedFolder folder(world());
    auto with_grid = sets;
    with_grid.push_back("parallel={strategy: spatial, grid: " + grid_of_all() +
                        "}");
    const auto together =
        run_in(world(), folder / "a", small_run(with_grid), options);
    const auto alone =
        run_in(single, folder / ("one" + std::to_string(world().rank())),
               small_run(sets), options);
    EXPECT_LT(largest_difference(together.weights, alone.weights), 1e-10)
        << one[0] << " " << one[1];
    EXPECT_NEAR(together.test->loss, alone.test->loss, 1e-10);
  }
}

// Stopped on a grid and resumed with all ranks, on another grid, and on one
// rank.
TEST(TiledRuns, ResumeOnAnyGrid) {
  const comm::Group single = each_alone();
  const std::vector<std::string> sets{kMoves,
                                      "optimizer={name: adam, "
                                      "learning_rate: 0.01}"};
  const SharedFolder folder(world());
  const RunConfig config = tiled_run(sets, grid_of_all());
  const auto whole = run_in(world(), folder / "whole", config);
  const std::string other = "1x" + std::to_string(world().size());
  int number = 0;  // of the folder
  for (const std::string& grid : {grid_of_all(), other, std::string("alone")}) {
    const std::string parts = folder / ("part" + std::to_string(number++));
    TrainOptions options;
    if (world().rank() == 0) options.model = stopping_model(config, 4);
    run_in(world(), parts, config, options);
    const auto latest = std::filesystem::path(parts) / "checkpoints" / "latest";
    const int ranks = world().size();
    const std::string last = "weights-0000" + std::to_string(ranks - 1) +
                             "-of-0000" + std::to_string(ranks) + ".pt";
    EXPECT_TRUE(
        std::filesystem::exists(latest / (ranks == 1 ? "weights.pt" : last)));
    const bool is_alone = grid == "alone";
    if (is_alone && world().rank() != 0) continue;
    const RunConfig next = tiled_run(sets, is_alone ? "1x1" : grid);
    const auto rest = run_in(is_alone ? single : world(), parts, next,
                             {.is_resumed = true, .accepts_changes = true});
    EXPECT_EQ(rest.steps, whole.steps);
    EXPECT_LT(largest_difference(whole.weights, rest.weights), 1e-10) << grid;
    if (grid == grid_of_all())
      EXPECT_TRUE(has_same_bits(whole.weights, rest.weights));
  }
}

// Filters that are trained on the ranks of their places, after pre-training on
// all ranks; with groups of samples, some of which never have any.
TEST(TiledRuns, TrainFiltersOfPlaces) {
  const comm::Group single = each_alone();
  const std::vector<std::vector<std::string>> cases{
      {"precision=f64", "check_weights_every=1"},
      {"precision=f64", "clip_norm=0.1", "optimizer={name: adamw}"},
      {"precision=f64", "global_batch=1", "data.limit=6"},
  };
  for (auto sets : cases)
    for (const std::string& grid : {grid_of_all(), std::string("1x2")}) {
      if (grid == "1x2" && world().size() != 4) continue;
      const SharedFolder folder(world());
      sets.insert(sets.begin(), {"pretraining.epochs=1", "epochs=2"});
      auto with_grid = sets;
      with_grid.push_back("parallel={strategy: spatial, grid: " + grid + "}");
      const auto together = run_in(world(), folder / "a", gb_run(with_grid));
      const auto one =
          run_in(single, folder / ("one" + std::to_string(world().rank())),
                 gb_run(sets));
      // Same reason as in Pretraining.RanksGiveWhatOneGives.
      EXPECT_LT(largest_difference(together.weights, one.weights), 1e-9)
          << grid << " " << sets.back();
      EXPECT_NEAR(together.test->loss, one.test->loss, 1e-9);
    }
}

TEST(TiledRuns, FiltersOfPlacesAreResumed) {
  const comm::Group single = each_alone();
  const std::vector<std::string> sets{
      "precision=f64", "optimizer={name: adam, learning_rate: 0.01}",
      "output.checkpoint_every=2"};
  auto with_grid = sets;
  with_grid.push_back("parallel={strategy: spatial, grid: " + grid_of_all() +
                      "}");
  const RunConfig config = gb_run(with_grid);
  const SharedFolder folder(world());
  const auto whole = run_in(world(), folder / "whole", config);
  for (const std::string next : {"same", "alone"}) {
    TrainOptions options;
    // Stops in an epoch of the run: validation and pre-training call others.
    if (world().rank() == 0) options.model = stopping_model(config, 5);
    const auto first = run_in(world(), folder / next, config, options);
    ASSERT_EQ(first.ending, Ending::kStoppedBySignal);
    if (next == "alone" && world().rank() != 0) continue;
    const auto rest =
        next == "same"
            ? run_in(world(), folder / next, config, {.is_resumed = true})
            : run_in(single, folder / next, gb_run(sets),
                     {.is_resumed = true, .accepts_changes = true});
    EXPECT_EQ(rest.steps, whole.steps);
    EXPECT_LT(largest_difference(whole.weights, rest.weights), 1e-9) << next;
    if (next == "same") EXPECT_TRUE(has_same_bits(whole.weights, rest.weights));
  }
}

// Writes a checkpoint of one file, or shards if requested.
TEST(TiledRuns, ShardsFollowTheConfig) {
  for (const std::string grid : {"", "all"})
    for (const std::string shards : {"auto", "one", "ranks"}) {
      const SharedFolder folder(world());
      run_in(world(), folder / "a",
             tiled_run({"epochs=1", "output.shards=" + shards},
                       grid == "all" ? grid_of_all() : ""));
      comm::barrier(world()).wait();
      const bool has_shards =
          world().size() > 1 &&
          (shards == "ranks" || (shards == "auto" && grid == "all"));
      EXPECT_NE(std::filesystem::exists(folder / "a/checkpoints/latest"
                                                 "/weights.pt"),
                has_shards)
          << grid << " " << shards;
    }
}

}  // namespace
}  // namespace sheaf::train
