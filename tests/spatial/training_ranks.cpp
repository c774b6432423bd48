// The tests of training_test.cpp with processes.

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "tests/spatial/training.hpp"
#include "tests/support/world.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

TEST(SpatialRanks, TrainOnAGrid) {
  const comm::Group& world = sheaf::test::world();
  const std::string grid = world.size() == 4 ? "2x2"
                           : world.size() == 3
                               ? "3x1"
                               : "1x" + std::to_string(world.size());
  expect_near(losses_on<ConvNetImpl>(grid, 1, {}, world),
              losses_alone<ConvNetImpl>({}), grid);
  const Task pixels{.image = 18, .has_classes_of_pixels = true};
  expect_near(losses_on<UNetImpl>(grid, 1, pixels, world),
              losses_alone<UNetImpl>(pixels), grid);
}

// Tiles of at least 128 KiB: all results of operations are read in place.
TEST(SpatialRanks, ReadTilesOfATrainingInPlace) {
  const comm::Group& world = sheaf::test::world();
  torch::manual_seed(1);
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)),
      torch::nn::ReLU(),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).padding(1)),
      torch::nn::ReLU(),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 5).padding(2)));
  const auto rows = 64 * static_cast<std::int64_t>(world.size());
  const at::Tensor image = random({1, 1, rows, 64}, at::kFloat, 1);
  net->forward(image).square().mean().backward();
  std::vector<at::Tensor> wanted;
  for (const at::Tensor& parameter : net->parameters())
    wanted.push_back(parameter.grad().clone());
  SpatialParallel model(net, world, {.grid = concat(world.size(), "x1")});
  for (int step = 0; step < 5; ++step) {
    model.tiles()->reset_stats();
    parallel::forget_gradients(*net);
    model.forward(image).square().mean().backward();
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LE(distance(net->parameters()[i].grad(), wanted[i]), 1e-5);
    const SpatialStats stats = model.tiles()->stats();
    const std::int64_t neighbors =
        (world.rank() > 0) + (world.rank() + 1 < world.size());
    // Halos of the inputs of three layers, and of two gradients.
    const std::int64_t row = 64 * 4 * neighbors;
    EXPECT_EQ(stats.halo_bytes, row * (1 + 8 + 2 * 8 + 2 * 8 + 8));
    EXPECT_EQ(stats.halo_bytes_in_place, stats.halo_bytes - row);
  }
}

}  // namespace
}  // namespace sheaf::spatial
