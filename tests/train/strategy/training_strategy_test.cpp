#include "sheaf/train/strategy/training_strategy.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

std::unique_ptr<TrainingStrategy> strategy_of(
    const comm::Group& group, const std::string& parallel,
    const std::shared_ptr<torch::nn::Module>& module) {
  return make_strategy(small_run({"parallel={" + parallel + "}"}), module,
                       group, nullptr);
}

data::Batch whole_images() {
  data::Batch batch;
  batch.data = torch::ones({2, 1, 4, 4});
  batch.target = torch::zeros({2}, torch::kLong);
  batch.global_size = 2;
  return batch;
}

TEST(TrainingStrategy, NoneExchangesNothing) {
  with_one_rank([](const comm::Group& group) {
    const torch::nn::Linear net(2, 1);
    const auto strategy = strategy_of(group, "strategy: none", net.ptr());
    EXPECT_FALSE(strategy->has_exchange());
    EXPECT_EQ(strategy->forward([] { return torch::ones({3}); }).numel(), 3);
    EXPECT_TRUE(strategy->gather_state().empty());
  });
}

TEST(TrainingStrategy, WholeImagesAreLeftAsTheyAre) {
  comm::run_threads(2, [](const comm::Group& group) {
    for (const char* name : {"data", "dad", "edad", "rank-dad", "auto"}) {
      const torch::nn::Linear net(2, 1);
      const auto strategy =
          strategy_of(group, concat("strategy: ", name), net.ptr());
      const data::Batch batch = whole_images();
      EXPECT_TRUE(strategy->has_exchange()) << name;
      EXPECT_EQ(strategy->exchanges_factors(), std::string(name) != "data");
      EXPECT_EQ(strategy->samples().size(), 2) << name;
      EXPECT_TRUE(strategy->counts_samples()) << name;
      EXPECT_TRUE(strategy->has_whole_outputs()) << name;
      EXPECT_TRUE(strategy->input_part(batch.data, batch).is_same(batch.data));
      EXPECT_TRUE(
          strategy->target_part(batch.target, batch).is_same(batch.target));
    }
  });
}

TEST(TrainingStrategy, SplitImagesAreCountedByOneRankOfAGrid) {
  comm::run_threads(4, [](const comm::Group& group) {
    const torch::nn::Conv2d net(1, 1, 1);
    const auto strategy =
        strategy_of(group, "strategy: spatial, grid: 1x2", net.ptr());
    const data::Batch batch = whole_images();
    const Tensor part = strategy->input_part(batch.data, batch);
    EXPECT_TRUE(spatial::is_split(part));
    EXPECT_EQ(spatial::local_of(part).sizes(),
              (std::vector<std::int64_t>{2, 1, 4, 2}));
    EXPECT_EQ(strategy->samples().size(), 2);
    EXPECT_EQ(strategy->samples().rank(), group.rank() / 2);
    EXPECT_EQ(strategy->counts_samples(), group.rank() % 2 == 0);
    EXPECT_FALSE(strategy->has_whole_outputs());
    EXPECT_TRUE(strategy->exchanges_in_layers());
  });
}

}  // namespace
}  // namespace sheaf::train
