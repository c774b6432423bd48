#include "sheaf/parallel/products/product_tap.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "sheaf/base/error.hpp"
#include "tests/parallel/products/seen_products.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using test::random_weight;
using test::seen_in;

TEST(ProductTap, TakesTheGradientAfterAllHooks) {
  const at::Tensor w = random_weight(3, 4);
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

// y = x W^T + b, with a tap that takes all gradients.
class ProductTapTest : public testing::Test {
 protected:
  ProductTapTest() {
    auto seen = seen_in({w, b}, [this] { y = at::linear(x, w, b); });
    tap = ProductTap::attach(
        seen[0],
        {[] { return true; },
         [this](const at::Tensor& given) { taken.push_back(given); }, [] {}});
  }

  const at::Tensor w = random_weight(3, 4);
  const at::Tensor b = at::rand({3}).set_requires_grad(true);
  const at::Tensor x = at::rand({5, 4}).set_requires_grad(true);
  at::Tensor y;
  std::shared_ptr<ProductTap> tap;
  std::vector<at::Tensor> taken;
};

// The edges lead to the same nodes afterwards.
TEST_F(ProductTapTest, RestoresTheGraph) {
  const auto edges = y.grad_fn()->next_edges();
  y.sum().backward({}, /*retain_graph=*/true);
  y.sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(taken.size(), 2u);
  for (std::size_t i = 0; i < edges.size(); ++i)
    EXPECT_TRUE(y.grad_fn()->next_edges()[i] == edges[i]) << i;
  EXPECT_FALSE(w.grad().defined());
}

TEST_F(ProductTapTest, RestoresTheGraphIfAHookThrows) {
  const auto edges = y.grad_fn()->next_edges();
  bool throws = true;
  y.register_hook([&](const at::Tensor& gradient) {
    if (throws) throw std::runtime_error("a user's error");
    return gradient;
  });
  EXPECT_THROW(y.sum().backward({}, /*retain_graph=*/true), std::runtime_error);
  for (std::size_t i = 0; i < edges.size(); ++i)
    EXPECT_TRUE(y.grad_fn()->next_edges()[i] == edges[i]) << i;
  EXPECT_TRUE(taken.empty());
  throws = false;
  y.sum().backward();
  EXPECT_EQ(taken.size(), 1u);
  EXPECT_FALSE(w.grad().defined());
}

// The delta would not be part of the new graph.
TEST_F(ProductTapTest, LeavesGradientsWithAGraphToBackward) {
  y.sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  EXPECT_TRUE(taken.empty());
  EXPECT_TRUE(w.grad().defined());
  w.mutable_grad().reset();  // it refers to the graph
  x.mutable_grad().reset();
  b.mutable_grad().reset();
}

TEST_F(ProductTapTest, TakesNothingOfAnUndefinedGradient) {
  tap->before({});
  for (const auto& edge : y.grad_fn()->next_edges())
    EXPECT_TRUE(edge.is_valid());
}

TEST_F(ProductTapTest, WhatItTakesHasNoHistory) {
  y.sum().backward();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_FALSE(taken[0].requires_grad());
  EXPECT_TRUE(taken[0].equal(at::ones({5, 3})));
}

// A hook that calls backward() once.
struct NestedBackward : torch::autograd::FunctionPreHook {
  explicit NestedBackward(at::Tensor given) : loss(std::move(given)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    if (std::exchange(is_within, true)) return gradients;
    const at::AutoGradMode on(true);
    loss.backward({}, /*retain_graph=*/true);
    return gradients;
  }
  at::Tensor loss;
  bool is_within = false;
};

// A backward() through a node whose own backward() is running.
TEST_F(ProductTapTest, ANestedBackwardOfTheSameProductIsAnError) {
  y.grad_fn()->add_pre_hook(std::make_unique<NestedBackward>(y.sum()));
  expect_throws<UsageError>([&] { y.square().sum().backward(); },
                            {"calls backward() or autograd::grad() through"});
  EXPECT_TRUE(taken.empty());
  y.grad_fn()->pre_hooks().clear();  // the loss refers to the graph
}

// The chain from the layer above ends here, and one to the layer below begins.
TEST_F(ProductTapTest, ReportsToItsChains) {
  const auto above = std::make_shared<DeltaChain>();
  const auto below = std::make_shared<DeltaChain>();
  tap->end(above);
  tap->begin(below);
  const at::Tensor delta = at::rand({5, 3}), passed = at::rand({5, 4});
  above->start(delta);
  // The gradients of the bias, the input and the weight.
  tap->after({at::Tensor(), passed, at::Tensor()}, delta);
  EXPECT_TRUE(above->holds(1, 1));
  EXPECT_FALSE(below->holds(1, 1)) << "it has not arrived yet";
  below->arrive(passed);
  EXPECT_TRUE(below->holds(1, 1));
  EXPECT_TRUE(taken.empty()) << "no gradient was taken";
}

}  // namespace
}  // namespace sheaf::parallel
