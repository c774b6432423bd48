#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

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
       {"softmax over channels",
        input,
        {},
        [](const at::Tensor& x, const Tensors&) { return x.softmax(1); }}},
      kFlatGrids);
}

}  // namespace
}  // namespace sheaf::spatial
