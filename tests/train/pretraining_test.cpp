#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sheaf/comm/world.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/train/pretrainer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/gb_runs.hpp"

namespace sheaf::train {
namespace {

using nlohmann::json;
using torch::Tensor;

Tensor unit(const Tensor& filters) {
  return filters / filters.norm(2, {1}, /*keepdim=*/true);
}

// The cost of one batch of four rows, by its definition.
Tensor cost_of(nn::Pretrainable& stack, std::size_t stage, const Tensor& images,
               const Tensor& encoder, const Tensor& decoder, double sparsity) {
  const Tensor x = stack.run_to(stage, images).detach();
  const auto filters = stack.filters(stage);
  const Tensor y = filters->encode(x, encoder);
  const Tensor squares = (filters->decode(y, decoder) - x).pow(2).sum();
  return (0.5 * squares + sparsity * stack.pool(stage, y).sum()) / 4;
}

TEST(Pretrainer, StepsDownTheGradientOfTheCost) {
  with_one_rank([](const comm::Group& group) {
    for (const char* update : {"summed", "two_step"})
      for (const std::size_t stage : {0, 1}) {
        const auto network = nn::make_network(
            {"gb", {{"image_size", "10"}, {"kernels", "3-2"}}, {}});
        network->to(torch::kDouble);
        auto& stack = dynamic_cast<nn::Pretrainable&>(*network);
        const Tensor images = torch::randn({4, 1, 10, 10}, torch::kDouble);
        const PretrainingConfig config{
            .learning_rate = 0.02, .sparsity = 0.3, .update = update};
        const Tensor before = stack.filters(stage)->weight.detach().clone();
        const Tensor encoder = before.clone().requires_grad_();
        const Tensor decoder = before.clone().requires_grad_();
        const Tensor cost =
            cost_of(stack, stage, images, encoder, decoder, 0.3);
        cost.backward();
        const Tensor expected =
            config.update == "summed"
                ? unit(before - 0.02 * (encoder.grad() + decoder.grad()))
                : unit(unit(before - 0.02 * decoder.grad()) -
                       0.02 * encoder.grad());

        Pretrainer pretrainer(config, stack, stage, group);
        const PretrainingCost told = pretrainer.step(images, 1.0 / 4);
        EXPECT_NEAR(told.reconstruction + told.sparsity, cost.item<double>(),
                    1e-10);
        const Tensor after = stack.filters(stage)->weight.detach();
        EXPECT_TRUE(torch::allclose(after, expected, 1e-12, 1e-12));
        EXPECT_FALSE(torch::allclose(after, before));
      }
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
    // Pre-training leaves its last weights in the first checkpoint.
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
