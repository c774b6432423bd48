// Networks whose ranks keep separate running statistics during training.
#include <gtest/gtest.h>

#include "sheaf/data/load/loader.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "sheaf/train/step/learner.hpp"
#include "tests/support/world.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

using test::world;

// At least two rows for each of four ranks.
RunConfig resnet_run(std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(),
              {"network={name: resnet8, arguments: {classes: 3}}",
               "data.arguments={examples: 30, test_examples: 20, classes: 3, "
               "shape: [3, 8, 8]}",
               "precision=f64", "epochs=2", "global_batch=10"});
  return small_run(sets);
}

TEST(Statistics, ASoundRunIsNotStopped) {
  const SharedFolder folder(world());
  for (const char* strategy : {"data", "dad"}) {
    const auto result = run_in(
        world(), folder / strategy,
        resnet_run({"check_weights_every=1",
                    concat("parallel.strategy=", strategy), "accumulate=2"}));
    EXPECT_EQ(result.steps, 6) << strategy;
  }
}

// The metrics computed by one process with the weights of the checkpoint.
MetricValues figures_of(const RunConfig& config, const std::string& checkpoints,
                        const std::string& name,
                        const std::shared_ptr<const data::Dataset>& examples) {
  const CheckpointFolder folder(checkpoints, 2);
  const TrainState state =
      name == "best" ? folder.load_step(folder.load_latest()->best_step)
                     : *folder.load_latest();
  Metrics metrics(3);
  with_one_rank([&](const comm::Group& group) {
    Learner learner(config, make_model(config), group);
    learner.load_weights(state.weights);
    learner.set_training(false);
    data::Loader loader(examples, group, {.global_batch = 10, .workers = 0});
    for (data::Batch& batch : loader) learner.evaluate(batch, metrics);
  });
  return metrics.values();
}

TEST(Statistics, WhatIsReportedIsOfTheCheckpoint) {
  const SharedFolder folder(world());
  for (const bool has_validation : {false, true}) {
    const RunConfig config = resnet_run(
        has_validation ? std::vector<std::string>{"data.validation=8"}
                       : std::vector<std::string>{});
    const std::string place = folder / (has_validation ? "with" : "without");
    const auto result = run_in(world(), place, config);
    const auto sets = open_data(config);
    const std::string checkpoints = place + "/checkpoints";
    const auto test = figures_of(config, checkpoints,
                                 has_validation ? "best" : "latest", sets.test);
    EXPECT_NEAR(result.test->loss, test.loss, 1e-12);
    EXPECT_EQ(result.test->accuracy, test.accuracy);
    EXPECT_EQ(result.test->f1, test.f1);
    if (!has_validation) continue;
    const auto validation =
        figures_of(config, checkpoints, "latest", sets.validation);
    EXPECT_NEAR(result.validation->loss, validation.loss, 1e-12);
    EXPECT_EQ(result.validation->accuracy, validation.accuracy);
  }
}

// All ranks end with the saved model.
TEST(Statistics, AllRanksEndWithOneModel) {
  const SharedFolder folder(world());
  const auto result = run_in(world(), folder / "a", resnet_run());
  const CheckpointFolder checkpoints(folder / "a/checkpoints", 2);
  EXPECT_TRUE(
      has_same_bits(result.weights, checkpoints.load_latest()->weights));
}

}  // namespace
}  // namespace sheaf::train
