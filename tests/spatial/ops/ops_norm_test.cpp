#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/spatial/spatial_parallel.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"
#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

TEST(SplitNorms, GiveWhatOneProcessGives) {
  const Sizes input{2, 6, 7, 5};
  expect_on_grids(
      {{"batch",
        input,
        {{6}, {6}},
        [](const at::Tensor& x, const Tensors& w) {
          return at::batch_norm(x, w[0], w[1], {}, {}, true, 0.1, 1e-5, false);
        }},
       {"group",
        input,
        {{6}, {6}},
        [](const at::Tensor& x, const Tensors& w) {
          return at::group_norm(x, 3, w[0], w[1]);
        }},
       {"layer",
        input,
        {{6, 7, 5}, {6, 7, 5}},
        [](const at::Tensor& x, const Tensors& w) {
          return at::layer_norm(x, {6, 7, 5}, w[0], w[1]);
        }},
       {"layer of channels",
        input,
        {{6}, {6}},
        [](const at::Tensor& x, const Tensors& w) {
          return at::layer_norm(x.permute({0, 2, 3, 1}), {6}, w[0], w[1])
              .permute({0, 3, 1, 2});
        }},
       {"instance",
        input,
        {{6}, {6}},
        [](const at::Tensor& x, const Tensors& w) {
          return at::instance_norm(x, w[0], w[1], {}, {}, true, 0.1, 1e-5,
                                   false);
        }},
       {"local response",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) {
          return torch::nn::functional::local_response_norm(
              x, torch::nn::functional::LocalResponseNormFuncOptions(3));
        }}},
      kFlatGrids);
}

TEST(SplitNorms, RunningMomentsAreThoseOfOneProcess) {
  const at::Tensor input = random({2, 3, 6, 6}, at::kDouble, 1);
  torch::nn::BatchNorm2d wanted(3);
  wanted->to(at::kDouble);
  wanted->forward(input);
  comm::run_threads(4, [&](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2x2"));
    torch::nn::BatchNorm2d norm(3);
    norm->to(at::kDouble);
    norm->forward(cut(input, tiles));
    EXPECT_LT(distance(norm->running_mean, wanted->running_mean), 1e-14);
    EXPECT_LT(distance(norm->running_var, wanted->running_var), 1e-14);
    norm->eval();
    EXPECT_TRUE(is_split(norm->forward(cut(input, tiles))));
  });
}

// Two groups of 1x2, with three samples and one, or with four and none.
TEST(SplitNorms, MomentsOfAllGroupsOfSamples) {
  const at::Tensor images = random({4, 3, 6, 7}, at::kDouble, 1);
  torch::nn::BatchNorm2d wanted(3);
  wanted->to(at::kDouble);
  const at::Tensor output = wanted->forward(images);
  for (const std::int64_t rows : {1, 3, 4})
    comm::run_threads(4, [&](const comm::Group& group) {
      torch::nn::BatchNorm2d norm(3);
      norm->to(at::kDouble);
      parallel::use_sync_batch_norm(*norm, group);
      SpatialParallel model(norm, group, {.grid = "1x2"});
      const bool is_first = model.sample_group() == 0;
      const std::int64_t first = is_first ? 0 : rows;
      const std::int64_t count = is_first ? rows : 4 - rows;
      const at::Tensor found =
          gather(model.forward(images.narrow(0, first, count)));
      EXPECT_LT(distance(found, output.narrow(0, first, count)), 1e-13);
      EXPECT_LT(distance(norm->running_mean, wanted->running_mean), 1e-14);
      EXPECT_LT(distance(norm->running_var, wanted->running_var), 1e-14);
    });
}

TEST(SplitNorms, SayWhenTheirGroupIsTooSmall) {
  comm::run_threads(2, [](const comm::Group& group) {
    torch::nn::BatchNorm2d norm(3);
    parallel::use_sync_batch_norm(*norm, group.new_group({0}));
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("1x2"));
    const at::Tensor image = cut(at::rand({1, 3, 4, 4}), tiles);
    if (group.rank() == 0) EXPECT_THROW(norm->forward(image), UsageError);
  });
}

}  // namespace
}  // namespace sheaf::spatial
