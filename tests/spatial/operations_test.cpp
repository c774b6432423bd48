#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/world.hpp"
#include "tests/spatial/same_as_alone.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

int ranks_of(const std::string& grid) {
  return halo::Grid::parse(grid).ranks();
}

void expect_all_same(const std::vector<Case>& cases,
                     const std::vector<std::string>& grids,
                     at::ScalarType type = at::kDouble,
                     double tolerance = 1e-12) {
  std::vector<Results> wanted;
  for (const Case& one : cases) wanted.push_back(alone(one, type));
  for (const std::string& grid : grids)
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid));
      for (std::size_t i = 0; i < cases.size(); ++i) try {
          expect_same(cases[i], wanted[i], tiles, type, tolerance);
        } catch (const std::exception&) {
          ADD_FAILURE() << cases[i].name << " on " << grid;
          throw;
        }
    });
}

const std::vector<std::string> kFlat{"1x1", "1x2", "2x1", "2x2",
                                     "1x3", "3x2", "3x3"};

Case conv2d(const std::string& name, const Sizes& input, const Sizes& weight,
            Sizes stride, Sizes padding, Sizes dilation, std::int64_t groups) {
  return {name,
          input,
          {weight, {weight[0]}},
          [=](const at::Tensor& x, const Tensors& w) {
            return at::conv2d(x, w[0], w[1], stride, padding, dilation, groups);
          }};
}

TEST(SplitOperations, Convolutions) {
  expect_all_same(
      {conv2d("plain", {2, 3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1),
       conv2d("valid", {1, 2, 12, 11}, {3, 2, 5, 4}, {1, 1}, {0, 0}, {1, 1}, 1),
       conv2d("neon's fault", {1, 1, 28, 28}, {2, 1, 5, 5}, {2, 2}, {0, 0},
              {1, 1}, 1),
       conv2d("dilated", {1, 4, 15, 13}, {6, 2, 3, 3}, {2, 1}, {2, 3}, {2, 3},
              2)},
      kFlat);
  expect_all_same({conv2d("negative halos", {1, 1, 55, 55}, {1, 1, 3, 3},
                          {2, 2}, {0, 0}, {1, 1}, 1)},
                  {"5x1", "1x5"});
  expect_all_same(
      {conv2d("f32", {2, 3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1)},
      kFlat, at::kFloat, 1e-5);
}

TEST(SplitOperations, ConvolutionsOfLinesAndVolumes) {
  const Case line{"line",
                  {2, 3, 17},
                  {{4, 3, 4}},
                  [](const at::Tensor& x, const Tensors& w) {
                    return at::conv1d(x, w[0], {}, 2, 1);
                  }};
  expect_all_same({line}, {"1", "2", "3", "4"});
  const Case volume{"volume",
                    {1, 2, 7, 6, 5},
                    {{3, 2, 3, 2, 3}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::conv3d(x, w[0], {}, 1, {1, 0, 1});
                    }};
  expect_all_same({volume}, {"2", "2x2", "2x2x2", "1x2x3"});
}

TEST(SplitOperations, TransposedConvolutions) {
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
  expect_all_same(cases, kFlat);
}

TEST(SplitOperations, Pooling) {
  const auto two = [](const char* name, auto function) {
    return Case{
        name, {2, 3, 11, 13}, {}, [=](const at::Tensor& x, const Tensors&) {
          return function(x);
        }};
  };
  expect_all_same(
      {two("max", [](auto& x) { return at::max_pool2d(x, 2); }),
       two("max, ceil",
           [](auto& x) {
             return at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true);
           }),
       two("max of ties",
           [](auto& x) {
             return at::max_pool2d(at::relu(x), {3, 2}, {1, 2}, {1, 0});
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
      kFlat);
}

TEST(SplitOperations, Normalisation) {
  const Sizes input{2, 6, 7, 5};
  expect_all_same(
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
      kFlat);
}

TEST(SplitOperations, RunningMomentsAreThoseOfOneProcess) {
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

TEST(SplitOperations, Upsampling) {
  namespace F = torch::nn::functional;
  const auto by = [](const char* name, auto mode, double factor, bool aligns) {
    return Case{
        name, {1, 2, 5, 7}, {}, [=](const at::Tensor& x, const Tensors&) {
          auto options = F::InterpolateFuncOptions()
                             .scale_factor(std::vector<double>{factor, factor})
                             .mode(mode);
          if constexpr (std::is_same_v<decltype(mode),
                                       torch::enumtype::kBilinear>)
            options.align_corners(aligns);
          return F::interpolate(x, options);
        }};
  };
  expect_all_same({by("nearest 2", torch::kNearest, 2, false),
                   by("nearest 1.5", torch::kNearest, 1.5, false),
                   by("bilinear 2", torch::kBilinear, 2, false),
                   by("bilinear 3, corners", torch::kBilinear, 3, true),
                   by("bilinear 0.5", torch::kBilinear, 0.5, false)},
                  kFlat);
}

TEST(SplitOperations, ShapesAndJoins) {
  const Sizes input{2, 4, 6, 5};
  expect_all_same(
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
      kFlat);
}

TEST(SplitOperations, LinearLayers) {
  expect_all_same({{"few outputs",
                    {3, 2, 5, 4},
                    {{6, 40}, {6}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(x.view({x.size(0), -1}), w[0], w[1]);
                    }},
                   {"many outputs",
                    {3, 1, 3, 2},
                    {{20, 6}, {20}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(at::relu(x.flatten(1)), w[0], w[1]);
                    }},
                   {"at each place",
                    {2, 3, 5, 4},
                    {{7, 3}, {7}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(x.permute({0, 2, 3, 1}), w[0], w[1]);
                    }},
                   {"two of them",
                    {3, 2, 5, 4},
                    {{6, 40}, {5, 6}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::linear(
                          at::relu(at::linear(x.flatten(1), w[0])), w[1]);
                    }}},
                  kFlat);
}

TEST(SplitOperations, Losses) {
  namespace F = torch::nn::functional;
  const Sizes input{2, 3, 5, 4};
  const at::Tensor target = random(input, at::kDouble, 5);
  const at::Tensor classes = random({2, 5, 4}, at::kDouble, 6)
                                 .abs()
                                 .mul(1.5)
                                 .clamp_max(2.9)
                                 .to(at::kLong);
  at::Tensor some = classes.clone();
  some[0][1][2] = -100;
  const at::Tensor weight = at::tensor({0.5, 1., 2.}, at::kDouble);
  const auto with = [&](const char* name, auto function) {
    return Case{name, input, {}, [=](const at::Tensor& x, const Tensors&) {
                  return function(x);
                }};
  };
  expect_all_same(
      {with("mse", [=](auto& x) { return at::mse_loss(x, target); }),
       with(
           "l1, sum",
           [=](auto& x) { return at::l1_loss(x, target, at::Reduction::Sum); }),
       with("smooth l1",
            [=](auto& x) { return at::smooth_l1_loss(x, target); }),
       with("bce",
            [=](auto& x) {
              return at::binary_cross_entropy_with_logits(x, target.sigmoid());
            }),
       with("cross entropy",
            [=](auto& x) { return F::cross_entropy(x, classes); }),
       with("cross entropy of some",
            [=](auto& x) {
              return F::cross_entropy(
                  x, some, F::CrossEntropyFuncOptions().weight(weight));
            }),
       with("sum", [](auto& x) { return x.square().sum(); }),
       with("mean", [](auto& x) { return x.square().mean(); })},
      kFlat);
}

TEST(SplitOperations, DropoutDoesNotDependOnTheGrid) {
  const at::Tensor ones = at::ones({2, 3, 6, 5}, at::kDouble);
  std::vector<at::Tensor> masks;
  for (const std::string grid : {"1x1", "2x2", "1x3"}) {
    at::Tensor found;
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      if (group.rank() == 0) torch::manual_seed(5);
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid));
      const at::Tensor dropped =
          gather(at::dropout(cut(ones, tiles), 0.4, true));
      const at::Tensor channels =
          gather(at::feature_dropout(cut(ones, tiles), 0.5, true));
      if (group.rank() == 0) found = dropped + 10 * channels;
    });
    masks.push_back(found);
  }
  EXPECT_TRUE(at::equal(masks[0], masks[1]));
  EXPECT_TRUE(at::equal(masks[0], masks[2]));
  EXPECT_GT((masks[0] == 0).sum().item<int>(), 20);
  EXPECT_GT((masks[0] > 10).sum().item<int>(), 20);
}

TEST(SplitOperations, SayWhatCannotBeSplit) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("1x2"));
    const at::Tensor x = cut(at::rand({1, 2, 4, 6}), tiles);
    const auto message = [](const std::function<void()>& action) {
      try {
        action();
      } catch (const UsageError& error) {
        return std::string(error.what());
      }
      return std::string("nothing");
    };
    EXPECT_NE(message([&] { at::cumprod(x, 1); })
                  .find("aten::cumprod on a tensor that is split over ranks "
                        "(1x2x[0|4]x[0|3|6])"),
              std::string::npos)
        << message([&] { at::cumprod(x, 1); });
    EXPECT_NE(message([&] { x.softmax(3); }).find("the axis is cut"),
              std::string::npos);
    EXPECT_NE(message([&] {
                x.view({1, 8, 6});
              }).find("mix an axis"),
              std::string::npos);
    EXPECT_THROW(x.data_ptr(), c10::Error);
  });
}

}  // namespace
}  // namespace sheaf::spatial
