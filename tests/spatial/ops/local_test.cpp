// Layers of the sparse auto-encoder on split tensors.

#include <gtest/gtest.h>

#include "sheaf/nn/local_contrast.hpp"
#include "sheaf/nn/locally_connected.hpp"
#include "sheaf/nn/network.hpp"
#include "tests/spatial/on_grids.hpp"
#include "tests/spatial/training.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

const std::vector<std::string> kLocalGrids{"1x1", "1x2", "2x2", "2x3", "4x4"};

TEST(SplitLocal, FiltersThatAreNotShared) {
  const auto connect = [](const Sizes& stride, const Sizes& padding) {
    return [=](const at::Tensor& x, const Tensors& w) {
      return nn::locally_connected2d(x, w[0], {4, 3}, stride, padding);
    };
  };
  expect_on_grids(
      {{"plain", {2, 2, 9, 8}, {{3, 24, 6, 6}}, connect({1, 1}, {0, 0})},
       {"stride", {1, 2, 12, 11}, {{3, 24, 6, 5}}, connect({2, 2}, {1, 0})},
       {"padding", {1, 2, 7, 6}, {{3, 24, 6, 6}}, connect({1, 1}, {1, 1})}},
      kLocalGrids);
}

TEST(SplitLocal, FiltersBackToTheImage) {
  const auto decode = [](const Sizes& stride, const Sizes& padding,
                         const Sizes& image) {
    return [=](const at::Tensor& y, const Tensors& w) {
      return nn::locally_connected2d_transposed(y, w[0], {4, 3}, stride,
                                                padding, image);
    };
  };
  expect_on_grids(
      {{"plain", {2, 3, 6, 6}, {{3, 24, 6, 6}}, decode({1, 1}, {0, 0}, {9, 8})},
       {"stride",
        {1, 3, 6, 5},
        {{3, 24, 6, 5}},
        decode({2, 2}, {1, 0}, {13, 11})}},
      kLocalGrids);
}

// Halos with one channel.
TEST(SplitLocal, ContrastOfNeighbors) {
  expect_on_grids({{"lcn",
                    {2, 5, 9, 8},
                    {},
                    [](const at::Tensor& x, const Tensors&) {
                      nn::LocalContrastNorm norm(
                          nn::LocalContrastNormOptions{.channels = 5});
                      norm->to(at::kDouble);
                      return norm(x);
                    }}},
                  kLocalGrids);
}

struct GbImpl : torch::nn::Module {
  std::shared_ptr<nn::Network> net = nn::make_network({.name = "gb"});
  GbImpl() { register_module("net", net); }
  at::Tensor forward(const at::Tensor& x) { return net->forward(x); }
};

TEST(SplitLocal, TrainsTheStack) {
  const auto wanted = losses_alone<GbImpl>({});
  for (const std::string grid : {"1x1", "1x2", "2x2", "2x3"})
    comm::run_threads(
        halo::Grid::parse(grid).ranks(), [&](const comm::Group& group) {
          expect_near(losses_on<GbImpl>(grid, 1, {}, group), wanted, grid);
        });
}

}  // namespace
}  // namespace sheaf::spatial
