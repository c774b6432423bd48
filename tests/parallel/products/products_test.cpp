#include "sheaf/parallel/products/products.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "sheaf/parallel/products/product_tap.hpp"

namespace sheaf::parallel {
namespace {

std::vector<Product> seen_in(const std::vector<at::Tensor>& parameters,
                             const std::function<void()>& action) {
  std::vector<Product> seen;
  ProductWatch watch(parameters,
                     [&](Product one) { seen.push_back(std::move(one)); });
  watch.start();
  action();
  watch.stop();
  return seen;
}

at::Tensor weight(std::int64_t out, std::int64_t in) {
  return at::rand({out, in}).set_requires_grad(true);
}

// The gradient computed from the factors of the product.
at::Tensor gradient_from(const Product& product, const at::Tensor& gradient) {
  return product.delta(gradient).t().mm(product.input);
}

// Elements that share memory have one gradient, the sum of their gradients.
TEST(Products, OfMatricesThatOverlapInMemoryAreNotTaken) {
  const at::Tensor p = at::rand({20}).set_requires_grad(true);
  const at::Tensor x = at::rand({5, 4});
  const auto count = [&](std::vector<std::int64_t> strides) {
    return seen_in({p},
                   [&] {
                     at::mm(x, p.as_strided({4, 4}, strides));
                   })
        .size();
  };
  EXPECT_EQ(count({1, 2}), 0);
  EXPECT_EQ(count({2, 1}), 0);
  EXPECT_EQ(count({1, 1}), 0);
  EXPECT_EQ(count({3, 1}), 0);
  EXPECT_EQ(count({4, 1}), 1);
  EXPECT_EQ(count({1, 5}), 1);
}

TEST(Products, OfALayerWithAndWithoutBias) {
  const at::Tensor w = weight(3, 4);
  const at::Tensor b = at::rand({3}).set_requires_grad(true);
  const at::Tensor x = at::rand({5, 4});
  auto seen = seen_in({w, b}, [&] { at::linear(x, w, b); });
  ASSERT_EQ(seen.size(), 1);
  EXPECT_EQ(seen[0].weight, 0);
  EXPECT_EQ(seen[0].bias, 1);
  EXPECT_TRUE(at::equal(seen[0].input, x));
  EXPECT_EQ(seen[0].view.in, 4);
  EXPECT_EQ(seen[0].view.out, 3);
  seen = seen_in({w, b}, [&] { at::linear(x, w); });
  ASSERT_EQ(seen.size(), 1);
  EXPECT_FALSE(seen[0].bias);
}

TEST(Products, OfBothSidesAndOfParts) {
  const at::Tensor w = weight(6, 4);
  const at::Tensor x = at::rand({5, 4});
  std::vector<at::Tensor> outputs;
  const auto seen = seen_in({w}, [&] {
    outputs.push_back(x.mm(w.t()));                  // x W
    outputs.push_back(w.mm(x.t()));                  // W x
    outputs.push_back(x.mm(w.narrow(0, 2, 3).t()));  // some rows of W
    outputs.push_back(at::rand({2, 6}).mm(w));       // W not transposed
  });
  ASSERT_EQ(seen.size(), 4);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const at::Tensor delta = at::rand_like(outputs[i]);
    const at::Tensor wanted =
        torch::autograd::grad({outputs[i]}, {w}, {delta})[0];
    at::Tensor found = at::zeros_like(wanted);
    part_of(found, seen[i].view).add_(gradient_from(seen[i], delta));
    EXPECT_TRUE(at::allclose(found, wanted)) << "product " << i;
  }
}

TEST(Products, OfATable) {
  const at::Tensor table = weight(7, 3);
  const at::Tensor numbers = at::tensor({2, 5, 2}, at::kLong);
  const auto seen = seen_in({table}, [&] { at::embedding(table, numbers); });
  ASSERT_EQ(seen.size(), 1);
  EXPECT_TRUE(seen[0].view.is_lookup);
  EXPECT_TRUE(at::equal(seen[0].input.flatten(), numbers));
}

TEST(Products, OnlyOfThoseParametersThisThreadAndThatTime) {
  const at::Tensor w = weight(3, 4), other = weight(3, 4);
  const at::Tensor x = at::rand({5, 4});
  const auto seen = seen_in({w}, [&] {
    at::linear(x, other);
    std::thread([&] { at::linear(x, w); }).join();
    const at::NoGradGuard no_grad;
    at::linear(x, w);
  });
  EXPECT_TRUE(seen.empty());
  at::linear(x, w);  // after stop()
}

TEST(Products, TapsTakeTheGradientAfterAllHooks) {
  const at::Tensor w = weight(3, 4);
  const at::Tensor b = at::rand({3}).set_requires_grad(true);
  const at::Tensor x = at::rand({5, 4}).set_requires_grad(true);
  at::Tensor y, taken;
  auto seen = seen_in({w, b}, [&] { y = at::linear(x, w, b); });
  ASSERT_EQ(seen.size(), 1);
  bool takes = true, has_ended = false;
  ProductTap::attach(seen[0], {[&] { return takes; },
                               [&](const at::Tensor& given) { taken = given; },
                               [&] { has_ended = true; }});
  y.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  y.sum().backward({}, /*retain_graph=*/true);
  EXPECT_FALSE(w.grad().defined());
  EXPECT_FALSE(b.grad().defined());
  EXPECT_TRUE(x.grad().defined());
  EXPECT_TRUE(taken.equal(at::full_like(y, 2).detach()));
  // Other backward passes, and those that it does not take, are not affected.
  const auto grads = torch::autograd::grad({y.sum()}, {w, b}, {}, true);
  EXPECT_TRUE(grads[1].equal(at::full({3}, 10.0)));
  takes = false;
  y.sum().backward();
  EXPECT_TRUE(w.grad().equal(grads[0]));
  EXPECT_TRUE(b.grad().equal(grads[1]));
  EXPECT_FALSE(has_ended);
  y.reset();
  seen.clear();
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace sheaf::parallel
