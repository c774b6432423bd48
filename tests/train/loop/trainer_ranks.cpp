#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "tests/support/world.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

using test::world;

// A group of this rank only; all ranks must call it.
comm::Group alone() { return world().split(/*color=*/world().rank()); }

TEST(Trainer, RanksGiveWhatOneGives) {
  const std::vector<std::vector<std::string>> cases{
      {"precision=f64"},
      {"precision=f64", "accumulate=3"},
      {"precision=f64", "global_batch=3"},  // fewer rows than four ranks
      {"precision=f64", "clip_norm=0.1", "optimizer={name: adamw}",
       "check_weights_every=2"},
      {"precision=f64", "loss=mse", "network.arguments={sizes: [16, 4, 1]}"},
  };
  for (const auto& sets : cases) {
    const SharedFolder folder(world());
    const comm::Group single = alone();
    const RunConfig config = small_run(sets);
    const auto together = run_in(world(), folder / "a", config);
    const auto one = run_in(
        single, folder / ("one" + std::to_string(world().rank())), config);
    EXPECT_LT(largest_difference(together.weights, one.weights), 1e-12)
        << sets.back();
    EXPECT_NEAR(together.test->loss, one.test->loss, 1e-12);
    if (config.loss != "mse") {
      EXPECT_EQ(together.test->accuracy, one.test->accuracy);
    }
  }
}

// Global batches of 3 and 1: some of four ranks have no rows, but their layers
// must still take part in the normalization.
TEST(Trainer, EmptySharesAreNormalizedWithTheOthers) {
  const std::vector<std::string> layers{
      "network={name: layers, arguments: {input: 1x4x4}, layers: "
      "[conv2d: {out_channels: 2, kernel: 3}, batchnorm, tanh, maxpool: "
      "{kernel: 2}, flatten, linear: {out_features: 3}]}"};
  for (const char* strategy : {"data", "dad"}) {
    const SharedFolder folder(world());
    const comm::Group single = alone();
    auto sets = layers;
    sets.insert(sets.end(), {"precision=f64", "global_batch=3", "data.limit=22",
                             concat("parallel={strategy: ", strategy,
                                    ", sync_batchnorm: true}")});
    const RunConfig config = small_run(sets);
    const auto together = run_in(world(), folder / "a", config);
    const auto one = run_in(
        single, folder / ("one" + std::to_string(world().rank())), config);
    EXPECT_LT(largest_difference(together.weights, one.weights), 1e-12)
        << strategy;
    EXPECT_NEAR(together.test->loss, one.test->loss, 1e-12);
  }
}

// A signal to the last rank only, at various moments.
TEST(Trainer, AResumedRunEndsWithTheSameBits) {
  const std::vector<std::vector<std::string>> cases{
      {"network.arguments={sizes: [16, 8, 3], dropout: 0.3}"},
      {"optimizer={name: adam, learning_rate: 0.01}",
       "output.checkpoint_every=2"},
      {"optimizer={name: adamw}", "data.validation=5"},
  };
  for (const auto& sets : cases)
    for (const int forwards : {1, 3, 5}) {
      const SharedFolder folder(world());
      const RunConfig config = small_run(sets);
      const auto whole = run_in(world(), folder / "whole", config);
      TrainOptions options;
      if (world().rank() == world().size() - 1)
        options.model = stopping_model(config, forwards);
      const auto first = run_in(world(), folder / "parts", config, options);
      ASSERT_EQ(first.ending, Ending::kStoppedBySignal);
      EXPECT_FALSE(first.test);
      const auto second =
          run_in(world(), folder / "parts", config, {.is_resumed = true});
      EXPECT_EQ(second.ending, Ending::kFinished);
      EXPECT_EQ(second.steps, whole.steps);
      EXPECT_TRUE(has_same_bits(whole.weights, second.weights)) << sets[0];
      EXPECT_EQ(whole.test->loss, second.test->loss);
    }
}

// Stopped before and after compression starts.
TEST(Trainer, AResumedRunKnowsWhatCompressionHeldBack) {
  const RunConfig config =
      small_run({"parallel.compression=powersgd", "parallel.powersgd_rank=1",
                 "epochs=10", "output.checkpoint_every=4"});
  const SharedFolder folder(world());
  const auto whole = run_in(world(), folder / "whole", config);
  for (const int forwards : {5, 20}) {
    const std::string parts = folder / std::to_string(forwards);
    TrainOptions options;
    if (world().rank() == 0) options.model = stopping_model(config, forwards);
    run_in(world(), parts, config, options);
    const auto rest = run_in(world(), parts, config, {.is_resumed = true});
    EXPECT_EQ(rest.steps, whole.steps);
    EXPECT_TRUE(has_same_bits(whole.weights, rest.weights)) << forwards;
  }
}

TEST(Trainer, ResumesOnAnotherNumberOfRanks) {
  const SharedFolder folder(world());
  const comm::Group single = alone();
  const RunConfig config = small_run({"precision=f64"});
  const auto whole = run_in(world(), folder / "whole", config);
  TrainOptions options;
  if (world().rank() == 0) options.model = stopping_model(config, 5);
  run_in(world(), folder / "parts", config, options);
  if (world().rank() != 0) return;
  const auto rest =
      run_in(single, folder / "parts", config, {.is_resumed = true});
  EXPECT_LT(largest_difference(whole.weights, rest.weights), 1e-12);
}

TEST(Trainer, EarlyStoppingIsOneDecision) {
  const SharedFolder folder(world());
  const RunConfig config =
      small_run({"early_stopping={metric: loss, patience: 2, min_change: 1e9}",
                 "epochs=9"});
  const auto result = run_in(world(), folder / "a", config);
  EXPECT_EQ(result.ending, Ending::kStoppedEarly);
  EXPECT_EQ(result.steps, 3 * 3);  // the first epoch is the best
  const auto again =
      run_in(world(), folder / "a", config, {.is_resumed = true});
  EXPECT_EQ(again.ending, Ending::kStoppedEarly);
  EXPECT_EQ(again.steps, 3 * 3);
}

TEST(Trainer, AnErrorIsReportedOnce) {
  const SharedFolder folder(world());
  const auto expect_told = [](const auto& body) {
    if (world().rank() == 0)
      EXPECT_THROW(body(), UsageError);
    else
      EXPECT_THROW(body(), FailedOnRoot);
  };
  run_in(world(), folder / "a", small_run());
  expect_told([&] { run_in(world(), folder / "a", small_run()); });
  expect_told([&] {
    run_in(world(), folder / "b", small_run({"data.transforms=[sharpen]"}));
  });
  if (world().size() > 1)
    expect_told([&] {
      run_in(world(), folder / "b", small_run({"parallel.strategy=none"}));
    });
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
}

}  // namespace
}  // namespace sheaf::train
