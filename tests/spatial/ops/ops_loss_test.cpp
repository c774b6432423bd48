#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

// The ignored class is outside the range of the weights.
TEST(SplitLosses, WeightedClassesAndIgnoredOnes) {
  namespace F = torch::nn::functional;
  at::Tensor classes = random({2, 5, 4}, at::kDouble, 6)
                           .abs()
                           .mul(1.5)
                           .clamp_max(2.9)
                           .to(at::kLong);
  classes[0][1][2] = 255;
  classes[1].slice(0, 3) = 255;
  const at::Tensor weight = at::tensor({0.5, 1., 2.}, at::kDouble);
  std::vector<Case> cases;
  for (const bool is_split_too : {false, true})
    cases.push_back(
        {is_split_too ? "target is split" : "target is whole",
         {2, 3, 5, 4},
         {},
         [=](const at::Tensor& x, const Tensors&) {
           const at::Tensor target =
               is_split_too && is_split(x)
                   ? cut(classes, split_of(x).tiles, /*first_axis=*/1)
                   : classes;
           return F::cross_entropy(
               x, target,
               F::CrossEntropyFuncOptions().weight(weight).ignore_index(255));
         }});
  expect_on_grids(cases, {"1x2", "2x2", "6x1"});
}

// The error is thrown on all ranks, not only on the rank of the pixel; the last
// rank has no pixels.
TEST(SplitLosses, RefuseClassesThatDoNotExist) {
  comm::run_threads(3, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("3x1"));
    const at::Tensor x = cut(random({1, 3, 2, 4}, at::kDouble, 1), tiles);
    const auto expect_refused = [&](std::int64_t wrong, const char* range) {
      at::Tensor classes = at::zeros({1, 2, 4}, at::kLong);
      classes[0][1][3] = wrong;
      for (const at::Tensor& target :
           {classes, cut(classes, tiles, /*first_axis=*/1)})
        expect_throws<UsageError>(
            [&] { torch::nn::functional::cross_entropy(x, target); },
            {"nll_loss", range, "has 3"});
    };
    expect_refused(3, "from 0 to 3");
    expect_refused(-1, "from -1 to 0");
    // The ranks are still at the same operation.
    const at::Tensor good =
        cut(at::ones({1, 2, 4}, at::kLong), tiles, /*first_axis=*/1);
    EXPECT_GT(torch::nn::functional::cross_entropy(x, good).item<double>(), 0);
  });
}

TEST(SplitLosses, OfPixels) {
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
  expect_on_grids(
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
      kFlatGrids);
}

TEST(SplitLosses, RefuseATargetThatIsSplitAlone) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2x1"));
    const at::Tensor target =
        cut(at::zeros({1, 2, 4}, at::kLong), tiles, /*first_axis=*/1);
    const at::Tensor whole = random({1, 3, 2, 4}, at::kDouble, 1);
    expect_throws<UsageError>(
        [&] { torch::nn::functional::cross_entropy(whole, target); },
        {"nll_loss", "its target is split, its input is not"});
  });
}

}  // namespace
}  // namespace sheaf::spatial
