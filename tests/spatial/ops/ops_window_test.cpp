#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"
#include "tests/spatial/random_cases.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

Case conv2d(const std::string& name, const Sizes& input, const Sizes& weight,
            Sizes stride, Sizes padding, Sizes dilation, std::int64_t groups) {
  return {name,
          input,
          {weight, {weight[0]}},
          [=](const at::Tensor& x, const Tensors& w) {
            return at::conv2d(x, w[0], w[1], stride, padding, dilation, groups);
          }};
}

TEST(SplitWindows, Convolutions) {
  expect_on_grids(
      {conv2d("plain", {2, 3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1),
       conv2d("valid", {1, 2, 12, 11}, {3, 2, 5, 4}, {1, 1}, {0, 0}, {1, 1}, 1),
       strided_case(5, 2, 28),
       conv2d("dilated", {1, 4, 15, 13}, {6, 2, 3, 3}, {2, 1}, {2, 3}, {2, 3},
              2)},
      kFlatGrids);
  expect_on_grids({strided_case(3, 2, 55)}, {"5x1", "1x5"});
  expect_on_grids(
      {conv2d("f32", {2, 3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1)},
      kFlatGrids, at::kFloat, 1e-5);
}

TEST(SplitWindows, ConvolutionsOfLinesAndVolumes) {
  const Case line{"line",
                  {2, 3, 17},
                  {{4, 3, 4}},
                  [](const at::Tensor& x, const Tensors& w) {
                    return at::conv1d(x, w[0], {}, 2, 1);
                  }};
  expect_on_grids({line}, {"1", "2", "3", "4"});
  const Case volume{"volume",
                    {1, 2, 7, 6, 5},
                    {{3, 2, 3, 2, 3}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::conv3d(x, w[0], {}, 1, {1, 0, 1});
                    }};
  expect_on_grids({volume}, {"2", "2x2", "2x2x2", "1x2x3"});
}

TEST(SplitWindows, TransposedConvolutions) {
  std::vector<Case> cases;
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t more : {0, 1}) {
      if (more >= stride) continue;
      cases.push_back({concat("stride ", stride, " and ", more),
                       {2, 4, 5, 6},
                       {{4, 3, 3, 2}, {3}},
                       [=](const at::Tensor& x, const Tensors& w) {
                         return at::conv_transpose2d(x, w[0], w[1],
                                                     {stride, stride}, {1, 0},
                                                     {more, more}, 1, {1, 2});
                       }});
    }
  expect_on_grids(cases, kFlatGrids);
}

// Ranks without a part of the image take part in all operations.
TEST(SplitWindows, ImagesWithFewerRowsThanRanks) {
  namespace F = torch::nn::functional;
  const Sizes input{2, 4, 3, 3};
  expect_on_grids({{"padding",
                    input,
                    {},
                    [](const at::Tensor& x, const Tensors&) {
                      return at::constant_pad_nd(x, {1, 0, 2, 1}, 0.5);
                    }},
                   {"local response",
                    input,
                    {},
                    [](const at::Tensor& x, const Tensors&) {
                      return F::local_response_norm(
                          x, F::LocalResponseNormFuncOptions(3));
                    }},
                   {"same, even kernel",
                    input,
                    {{2, 4, 2, 4}, {2}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::conv2d(x, w[0], w[1], 1, "same");
                    }},
                   {"transposed",
                    input,
                    {{4, 2, 3, 2}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::conv_transpose2d(x, w[0], {}, 2, 1);
                    }},
                   {"prelu",
                    input,
                    {{4}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::prelu(x, w[0]);
                    }}},
                  {"6x1", "1x5", "4x4"});
  expect_on_grids({{"prelu of one weight",
                    {1, 3, 5, 4},
                    {{1}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::prelu(x, w[0]);
                    }}},
                  kFlatGrids);
}

TEST(SplitWindows, Pooling) {
  const auto two = [](const char* name, auto function) {
    return Case{
        name, {2, 3, 11, 13}, {}, [=](const at::Tensor& x, const Tensors&) {
          return function(x);
        }};
  };
  expect_on_grids(
      {two("max", [](auto& x) { return at::max_pool2d(x, 2); }),
       two("max, ceil",
           [](auto& x) {
             return at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true);
           }),
       two("max of ties",
           [](auto& x) {
             return at::max_pool2d(at::relu(x), {3, 2}, {1, 2}, {1, 0});
           }),
       two("max, a kernel larger than the image",
           [](auto& x) {
             return at::max_pool2d(x, {13, 3}, {4, 2}, {0, 1}, {1, 1}, true);
           }),
       two("average, a kernel larger than the image",
           [](auto& x) {
             return at::avg_pool2d(x, {13, 3}, {4, 2}, {0, 1}, true, false);
           }),
       two("average",
           [](auto& x) {
             return at::avg_pool2d(x, {2, 3});
           }),
       two("average with pads",
           [](auto& x) {
             return at::avg_pool2d(x, {3, 3}, {2, 2}, {1, 1}, true, true);
           }),
       two("average without pads",
           [](auto& x) {
             return at::avg_pool2d(x, {3, 3}, {2, 2}, {1, 1}, true, false);
           }),
       two("average by 7",
           [](auto& x) {
             return at::avg_pool2d(x, {3, 3}, {2, 1}, {1, 1}, false, true, 7);
           }),
       two("L2",
           [](auto& x) {
             return torch::nn::functional::lp_pool2d(
                 x,
                 torch::nn::functional::LPPool2dFuncOptions(2, {3, 3}).stride(
                     {1, 1}));
           }),
       two("global",
           [](auto& x) {
             return at::adaptive_avg_pool2d(x, {1, 1});
           })},
      kFlatGrids);
}

TEST(SplitWindows, RefuseSamplesAndChannelsThatAreCut) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2"));
    const at::Tensor whole = random({4, 2, 6, 6}, at::kDouble, 1);
    const at::Tensor weight = random({3, 2, 3, 3}, at::kDouble, 2);
    for (const int axis : {0, 1}) {
      const at::Tensor x = cut(whole, tiles, axis);
      for (const auto& action : std::vector<std::function<void()>>{
               [&] { at::conv2d(x, weight); }, [&] { at::max_pool2d(x, 2); }})
        expect_throws<UsageError>(action, {"samples or channels are cut"});
    }
  });
}

}  // namespace
}  // namespace sheaf::spatial
