#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/world.hpp"
#include "tests/train/loop/gb_runs.hpp"

namespace sheaf::train {
namespace {

using test::world;

TEST(Pretraining, RanksGiveWhatOneGives) {
  const std::vector<std::vector<std::string>> cases{
      {"precision=f64", "check_weights_every=1"},
      {"precision=f64", "pretraining.update=two_step",
       "pretraining.cost=plain"},
      {"precision=f64", "global_batch=3"},  // fewer rows than four ranks
      {"precision=f64", "clip_norm=0.1", "optimizer={name: adamw}"},
      {"precision=f64", "parallel={strategy: dad}"},
  };
  const comm::Group alone = world().split(/*color=*/world().rank());
  for (const auto& sets : cases) {
    const SharedFolder folder(world());
    const RunConfig config = gb_run(sets);
    const auto together = run_in(world(), folder / "a", config);
    const auto one = run_in(
        alone, folder / ("one" + std::to_string(world().rank())), config);
    // Local contrast normalization divides by small deviations, so rounding
    // errors grow with each of the 21 steps, more so if the mean of only three
    // images is subtracted.
    EXPECT_LT(largest_difference(together.weights, one.weights), 1e-7)
        << sets.back();
    EXPECT_NEAR(together.test->loss, one.test->loss, 1e-9);
  }
}

TEST(Pretraining, AGridGivesWhatOneGives) {
  const comm::Group alone = world().split(/*color=*/world().rank());
  const std::string ranks = std::to_string(world().size());
  const auto one_folder = "one" + std::to_string(world().rank());
  for (const std::string& grid : {ranks + "x1", "1x" + ranks}) {
    const SharedFolder folder(world());
    const auto together =
        run_in(world(), folder / "a",
               gb_run({"precision=f64",
                       "parallel={strategy: spatial, grid: " + grid + "}"}));
    const auto one =
        run_in(alone, folder / one_folder, gb_run({"precision=f64"}));
    EXPECT_LT(largest_difference(together.weights, one.weights), 1e-9) << grid;
    EXPECT_NEAR(together.test->loss, one.test->loss, 1e-9);
  }
}

std::vector<std::int64_t> steps_in(const std::string& file) {
  std::vector<std::int64_t> steps;
  for (const std::string& line : lines_in(file)) {
    const auto row = nlohmann::json::parse(line);
    if (row["kind"] == "batch" || row["kind"] == "pretrain")
      steps.push_back(row["step"]);
  }
  return steps;
}

// Stopped in the first and second stage, and in the steps of the run.
TEST(Pretraining, AResumedRunEndsWithTheSameBits) {
  const SharedFolder folder(world());
  const RunConfig config = gb_run();
  const auto whole = run_in(world(), folder / "whole", config);
  for (const int batches : {2, 8, 14, 18}) {
    const std::string parts = folder / std::to_string(batches);
    TrainOptions options;
    if (world().rank() == world().size() - 1)
      options.data = stopping_data(config, batches);
    const auto first = run_in(world(), parts, config, options);
    ASSERT_EQ(first.ending, Ending::kStoppedBySignal) << batches;
    const auto second = run_in(world(), parts, config, {.is_resumed = true});
    EXPECT_EQ(second.steps, whole.steps);
    EXPECT_TRUE(has_same_bits(whole.weights, second.weights)) << batches;
    if (world().rank() == 0)
      EXPECT_EQ(steps_in(parts + "/log.jsonl"),
                steps_in(folder / "whole/log.jsonl"));
  }
}

}  // namespace
}  // namespace sheaf::train
