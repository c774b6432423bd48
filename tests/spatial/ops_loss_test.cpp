#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

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

}  // namespace
}  // namespace sheaf::spatial
