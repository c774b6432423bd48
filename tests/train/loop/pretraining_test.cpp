#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/train/loop/pretrainer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/gb_runs.hpp"

namespace sheaf::train {
namespace {

using nlohmann::json;
using torch::Tensor;

Tensor unit(const Tensor& filters) {
  return filters / filters.norm(2, {1}, /*keepdim=*/true);
}

// Number of windows that cover each pixel along one axis.
Tensor windows_along(std::int64_t size, std::int64_t kernel) {
  const Tensor counts = torch::zeros({size}, torch::kDouble);
  for (std::int64_t i = 0; i + kernel <= size; ++i)
    counts.narrow(0, i, kernel).add_(1);
  return counts;
}

// The cost of one batch of four rows, computed from its definition.
Tensor cost_of(nn::Pretrainable& stack, std::size_t stage, const Tensor& images,
               const Tensor& encoder, const Tensor& decoder,
               const PretrainingConfig& config) {
  const auto filters = stack.filters(stage);
  const auto& options = filters->options();
  Tensor x = stack.run_to(stage, images).detach();
  Tensor windows = torch::ones({1}, torch::kDouble);
  if (config.cost == "scaled") {
    if (config.center) x = x - x.mean(0);
    x = x / x.pow(2).sum(1).mean().sqrt();
    windows = torch::outer(windows_along(options.image[0], options.kernel[0]),
                           windows_along(options.image[1], options.kernel[1])) /
              config.gain;
  }
  const Tensor y = filters->encode(x, encoder);
  const Tensor error = filters->decode(y, decoder) / windows - x;
  return (0.5 * error.pow(2).sum() +
          config.sparsity * stack.pool(stage, y).sum()) /
         4;
}

void expect_step_down(const PretrainingConfig& config, std::size_t stage,
                      const comm::Group& group) {
  SCOPED_TRACE(config.update + " " + config.cost +
               (config.center ? " center" : ""));
  const auto network =
      nn::make_network({"gb", {{"image_size", "10"}, {"kernels", "3-2"}}, {}});
  network->to(torch::kDouble);
  auto& stack = dynamic_cast<nn::Pretrainable&>(*network);
  const Tensor images = torch::randn({4, 1, 10, 10}, torch::kDouble) + 1;
  const Tensor before = stack.filters(stage)->weight.detach().clone();
  const Tensor encoder = before.clone().requires_grad_();
  const Tensor decoder = before.clone().requires_grad_();
  const Tensor cost = cost_of(stack, stage, images, encoder, decoder, config);
  cost.backward();
  const double rate = config.learning_rate;
  const Tensor expected =
      config.update == "summed"
          ? unit(before - rate * (encoder.grad() + decoder.grad()))
          : unit(unit(before - rate * decoder.grad()) - rate * encoder.grad());

  Pretrainer pretrainer(config, stack, stage, group);
  const PretrainingCost told = pretrainer.step(images, 1.0 / 4);
  EXPECT_NEAR(told.reconstruction + told.sparsity, cost.item<double>(), 1e-10);
  const Tensor after = stack.filters(stage)->weight.detach();
  EXPECT_TRUE(torch::allclose(after, expected, 1e-12, 1e-12));
  EXPECT_FALSE(torch::allclose(after, before));
}

TEST(Pretrainer, StepsDownTheGradientOfTheCost) {
  with_one_rank([](const comm::Group& group) {
    for (const char* update : {"summed", "two_step"})
      for (const char* cost : {"scaled", "plain"})
        for (const bool center : {true, false})
          for (const std::size_t stage : {0, 1})
            expect_step_down({.learning_rate = 0.02,
                              .sparsity = 0.3,
                              .cost = cost,
                              .gain = 0.7,
                              .center = center,
                              .update = update},
                             stage, group);
  });
}

// Only the first batch is measured.
TEST(Pretrainer, TheScaleOfTheImagesDoesNotCount) {
  with_one_rank([](const comm::Group& group) {
    const Tensor images = torch::randn({2, 1, 10, 10}, torch::kDouble);
    std::vector<Tensor> weights;
    std::vector<double> costs;
    for (const double scale : {1.0, 100.0}) {
      torch::manual_seed(1);
      const auto network = nn::make_network(
          {"gb", {{"image_size", "10"}, {"kernels", "3"}}, {}});
      network->to(torch::kDouble);
      auto& stack = dynamic_cast<nn::Pretrainable&>(*network);
      const PretrainingConfig config;
      Pretrainer pretrainer(config, stack, 0, group);
      pretrainer.step(scale * images, 1.0 / 2);
      costs.push_back(pretrainer.step(-2 * scale * images, 0.5).reconstruction);
      weights.push_back(stack.filters(0)->weight.detach());
    }
    EXPECT_NEAR(costs[0], costs[1], 1e-6 * costs[0]);
    EXPECT_TRUE(torch::allclose(weights[0], weights[1], 1e-6, 1e-6));
  });
}

// The fraction of the classifier's input that is common to all images.
double common_part(nn::Pretrainable& stack, const Tensor& images) {
  const torch::NoGradGuard no_grad;
  const Tensor seen = stack.run_to(stack.stages(), images);
  return (seen.mean(0).pow(2).sum() / seen.pow(2).sum(1).mean(0).sum())
      .item<double>();
}

// Photographs differ less from each other than from black. Filters that learn
// to reconstruct their mean respond to all of them alike.
TEST(Pretrainer, WhatAllImagesHaveInCommonIsNotLearned) {
  with_one_rank([](const comm::Group& group) {
    double common[2];
    for (const bool center : {false, true}) {
      torch::manual_seed(1);
      const auto network = nn::make_network(
          {"gb",
           {{"image_size", "12"}, {"kernels", "3-2"}, {"floor", "1"}},
           {}});
      network->to(torch::kDouble);
      auto& stack = dynamic_cast<nn::Pretrainable&>(*network);
      const Tensor images =
          torch::randn({20, 1, 12, 12}, torch::kDouble) * 0.5 + 1;
      const PretrainingConfig config{.center = center};
      for (std::size_t stage = 0; stage < stack.stages(); ++stage) {
        Pretrainer pretrainer(config, stack, stage, group);
        for (int step = 0; step < 40; ++step) pretrainer.step(images, 1.0 / 20);
      }
      common[center] = common_part(stack, images);
    }
    RecordProperty("without", std::to_string(common[0]));
    RecordProperty("with", std::to_string(common[1]));
    EXPECT_GT(common[0], 0.9);
    EXPECT_LT(common[1], 0.9);
  });
}

TEST(Pretraining, LowersTheCostOfEachStage) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const auto place = folder.path() / "run";
    std::ostringstream out;
    TrainOptions options;
    options.out = &out;
    run_in(group, place, gb_run({"pretraining.epochs=10"}), options);
    std::map<int, std::vector<double>> costs;
    std::int64_t next = -2 * 10 * 3;
    for (const std::string& line : lines_in(place / "log.jsonl")) {
      const json row = json::parse(line);
      if (row["kind"] == "epoch" || row["kind"] == "test") continue;
      EXPECT_EQ(row["step"], next++);
      if (row["kind"] != "pretrain") continue;
      costs[row["stage"]].push_back(row["reconstruction"].get<double>() +
                                    row["sparsity"].get<double>());
      EXPECT_GE(row["batch_duration"], 0);
    }
    EXPECT_EQ(next, 9);
    ASSERT_EQ(costs.size(), 2u);
    for (const auto& [stage, values] : costs) {
      ASSERT_EQ(values.size(), 30u);
      const auto mean = [&](std::size_t first) {
        return values[first] + values[first + 1] + values[first + 2];
      };
      EXPECT_LT(mean(27), mean(0)) << stage;
    }
    EXPECT_NE(out.str().find("pre-training 2/2, epoch 10/10"),
              std::string::npos);
  });
}

std::map<std::string, Tensor> weights_of(const RunResult& result) {
  std::map<std::string, Tensor> weights;
  for (const auto& [name, tensor] : result.weights) weights[name] = tensor;
  return weights;
}

TEST(Pretraining, TheClassifierLearnsAloneAtFirst) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    const auto run_with = [&](const std::string& name, const std::string& set) {
      return weights_of(
          run_in(group, folder.path() / name, gb_run({"epochs=1", set})));
    };
    auto alone = run_with("alone", "pretraining.classifier_epochs=1");
    auto all = run_with("all", "pretraining.classifier_epochs=0");
    // The first checkpoint contains the last weights of pre-training.
    const auto start =
        CheckpointFolder(folder.path() / "all" / "checkpoints", 1)
            .load("step-0000000000");
    EXPECT_EQ(start.pretrained_stages, 2);
    for (const auto& [name, tensor] : start.weights) {
      const bool is_filter = name.rfind("filters", 0) == 0;
      const bool is_buffer = name.rfind("norm", 0) == 0;
      EXPECT_EQ(torch::equal(alone.at(name), tensor), is_filter || is_buffer)
          << name;
      EXPECT_EQ(torch::equal(all.at(name), tensor), is_buffer) << name;
      if (!is_filter) continue;
      const Tensor lengths = all.at(name).norm(2, {1});
      EXPECT_TRUE(torch::allclose(lengths, torch::ones_like(lengths)));
    }
  });
}

TEST(Pretraining, IsForNetworksInStages) {
  with_one_rank([](const comm::Group& group) {
    const TemporaryFolder folder;
    for (const std::string key : {"epochs", "classifier_epochs"})
      expect_throws<UsageError>(
          [&] {
            run_in(group, folder.path() / "a",
                   small_run({"pretraining." + key + "=1"}));
          },
          {"pretraining." + key, "'mlp'", "network=gb"});
    expect_throws<UsageError>([] { gb_run({"pretraining.update=twice"}); },
                              {"summed", "two_step"});
  });
}

}  // namespace
}  // namespace sheaf::train
