#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

// If an axis of size 1 makes the choice ambiguous, the image stays the last
// axes.
TEST(SplitShapes, ViewsOfLinesKeepTheirImage) {
  const auto viewed = [](const Sizes& to, const Sizes& weight) {
    return [=](const at::Tensor& x, const Tensors& w) {
      return at::conv2d(x.view(to), w[0].view(weight), {}, 1,
                        {weight[2] / 2, weight[3] / 2});
    };
  };
  expect_on_grids(
      {{"channels to samples",
        {2, 3, 1, 7},
        {{3}},
        viewed({6, 1, 1, 7}, {1, 1, 1, 3})},
       {"and back to channels",
        {6, 1, 1, 7},
        {{9}},
        viewed({2, 3, 1, 7}, {1, 3, 1, 3})},
       {"a column", {2, 3, 7, 1}, {{3}}, viewed({6, 1, 7, 1}, {1, 1, 3, 1})}},
      kFlatGrids);
}

TEST(SplitShapes, SkipsSlicesAndJoins) {
  const Sizes input{2, 4, 6, 5};
  expect_on_grids(
      {{"skip",
        input,
        {{4, 4, 3, 3}},
        [](const at::Tensor& x, const Tensors& w) {
          return x + at::relu(at::conv2d(x, w[0], {}, 1, 1));
        }},
       {"cat of different cuts",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) {
          const at::Tensor half = at::max_pool2d(x, 2, 2, 1);
          const at::Tensor up = at::upsample_nearest2d(half, {8, 6});
          return at::cat({up.slice(2, 1, 7).slice(3, 0, 5), x}, 1);
        }},
       {"slices",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) {
          return x.slice(2, 1, 5).slice(1, 0, 4, 2) * 2;
        }},
       {"broadcast",
        input,
        {{4, 1, 1}, {1, 6, 5}},
        [](const at::Tensor& x, const Tensors& w) {
          return (x * w[0] + w[1]).sigmoid();
        }},
       {"squeeze and excite",
        input,
        {{4, 4}},
        [](const at::Tensor& x, const Tensors& w) {
          const at::Tensor gate = at::linear(x.mean({2, 3}), w[0]).sigmoid();
          return x * gate.unsqueeze(-1).unsqueeze(-1);
        }},
       {"in place",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) {
          at::Tensor y = x * 2;
          y += 1;
          y.relu_();
          return y;
        }},
       {"larger of two",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) {
          return at::max(x, 0.5 - x) + at::min(x, x * x);
        }},
       {"along channels",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) {
          return std::get<0>(x.topk(3, 1)) +
                 at::logsumexp(x, {1}, /*keepdim=*/true) +
                 std::get<0>(x.max(1, /*keepdim=*/true)) +
                 std::get<0>(x.min(1)).unsqueeze(1) +
                 at::logsumexp(x, at::IntArrayRef({0, 1}));
        }},
       {"sums of a flattened image",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) {
          return x.flatten(1).square().sum(at::IntArrayRef({0, 1}),
                                           /*keepdim=*/true) +
                 x.flatten(1).mean();
        }},
       {"softmax over channels",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) { return x.softmax(1); }}},
      kFlatGrids);
}

// As in a channel shuffle: the axes before the image are split and joined.
TEST(SplitShapes, AxesBesideTheImageAreSplitAndJoined) {
  expect_on_grids(
      {{"shuffle",
        {2, 6, 5, 4},
        {},
        [](const at::Tensor& x, const Tensors&) {
          return x.view({2, 2, 3, 5, 4}).transpose(1, 2).reshape({2, 6, 5, 4}) *
                 x.view({12, 5, 4}).view({2, 6, 5, 4});
        }}},
      kFlatGrids);
}

// Only axes from the first cut one on can be flattened.
TEST(SplitShapes, ACutAxisOfSamplesIsNotFlattenedAway) {
  comm::run_threads(4, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2x2"));
    const at::Tensor x =
        cut(random({4, 6, 5}, at::kDouble, 1), tiles, /*first_axis=*/0);
    expect_throws<UsageError>([&] { x.flatten(1); },
                              {"view as [4, 30]", "would mix a cut axis"});
    EXPECT_EQ(x.flatten(0).size(0), 120);
  });
}

}  // namespace
}  // namespace sheaf::spatial
