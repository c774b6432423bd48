#include "sheaf/parallel/products/products.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "tests/parallel/products/seen_products.hpp"

namespace sheaf::parallel {
namespace {

using test::random_weight;
using test::seen_in;

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
  const at::Tensor w = random_weight(3, 4);
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
  const at::Tensor w = random_weight(6, 4);
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
  const at::Tensor table = random_weight(7, 3);
  const at::Tensor numbers = at::tensor({2, 5, 2}, at::kLong);
  const auto seen = seen_in({table}, [&] { at::embedding(table, numbers); });
  ASSERT_EQ(seen.size(), 1);
  EXPECT_TRUE(seen[0].view.is_lookup);
  EXPECT_TRUE(at::equal(seen[0].input.flatten(), numbers));
}

TEST(Products, OnlyOfThoseParametersThisThreadAndThatTime) {
  const at::Tensor w = random_weight(3, 4), other = random_weight(3, 4);
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

// A view may reach the memory behind its parameter.
TEST(Products, OfMemoryBehindAParameterAreNotTaken) {
  const at::Tensor memory = at::rand({20});
  const at::Tensor p = memory.narrow(0, 4, 8).detach().set_requires_grad(true);
  const auto count = [&](std::int64_t offset) {
    return seen_in(
               {p},
               [&] {
                 at::mm(at::rand({5, 2}), p.as_strided({2, 4}, {4, 1}, offset));
               })
        .size();
  };
  EXPECT_EQ(count(3), 0) << "before it";
  EXPECT_EQ(count(4), 1);
  EXPECT_EQ(count(12), 0) << "behind it";
}

// The delta of W x has the shape out x rows.
TEST(Products, DeltasHaveOneRowForEachRowOfTheInput) {
  Product product;
  const at::Tensor gradient = at::rand({2, 3});
  EXPECT_TRUE(product.delta(gradient).is_same(gradient));
  product.is_transposed = true;
  EXPECT_TRUE(product.delta(gradient).equal(gradient.t()));
  product.view.is_lookup = true;
  product.view.out = 3;
  const at::Tensor words = at::rand({2, 5, 3});
  EXPECT_TRUE(product.delta(words).equal(words.reshape({10, 3})));
}

}  // namespace
}  // namespace sheaf::parallel
