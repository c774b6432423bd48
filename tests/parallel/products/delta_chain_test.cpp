#include "sheaf/parallel/products/delta_chain.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

namespace sheaf::parallel {
namespace {

class DeltaChainTest : public testing::Test {
 protected:
  const at::Tensor first = at::rand({2, 3});
  const at::Tensor second = at::rand({2, 3});
  DeltaChain chain;
};

TEST_F(DeltaChainTest, HoldsIfTheSameTensorArrives) {
  chain.start(first);
  chain.arrive(first);
  EXPECT_TRUE(chain.holds(1, 1));
  chain.start(first);
  chain.pass(first, second);
  chain.arrive(second);
  EXPECT_TRUE(chain.holds(2, 2));
}

// Other gradients of the layers took another path.
TEST_F(DeltaChainTest, HoldsOnlyForAllGradients) {
  EXPECT_TRUE(chain.holds(0, 0));
  chain.start(first);
  EXPECT_FALSE(chain.holds(1, 0)) << "it has not arrived";
  chain.arrive(first);
  EXPECT_FALSE(chain.holds(2, 1));
  EXPECT_FALSE(chain.holds(1, 2));
  EXPECT_FALSE(chain.holds(2, 2));
}

TEST_F(DeltaChainTest, BreaksIfTheTensorIsReplaced) {
  chain.start(first);
  chain.arrive(first.clone());
  EXPECT_FALSE(chain.holds(1, 1));
  chain.start(first);
  chain.arrive(first);
  EXPECT_FALSE(chain.holds(2, 2)) << "for good";
}

TEST_F(DeltaChainTest, BreaksIfTheTensorIsReplacedBeforeTheFunction) {
  chain.start(first);
  chain.pass(first.clone(), second);
  chain.arrive(second);
  EXPECT_FALSE(chain.holds(1, 1));
}

TEST_F(DeltaChainTest, BreaksIfTheTensorIsChangedInPlace) {
  chain.start(first);
  first.mul_(2);
  chain.arrive(first);
  EXPECT_FALSE(chain.holds(1, 1));
}

TEST_F(DeltaChainTest, BreaksIfTheResultOfTheFunctionIsChangedInPlace) {
  chain.start(first);
  chain.pass(first, second);
  second.mul_(2);
  chain.arrive(second);
  EXPECT_FALSE(chain.holds(1, 1));
}

TEST_F(DeltaChainTest, BreaksWithoutAGradient) {
  chain.start({});
  chain.arrive({});
  EXPECT_FALSE(chain.holds(1, 1));
}

// A gradient that arrives twice left the layer above only once.
TEST_F(DeltaChainTest, BreaksIfAGradientArrivesAgain) {
  chain.start(first);
  chain.arrive(first);
  chain.arrive(first);
  EXPECT_FALSE(chain.holds(1, 2));
  EXPECT_FALSE(chain.holds(2, 2));
}

// With create_graph, the gradient would keep its own graph alive.
TEST_F(DeltaChainTest, DoesNotHoldGradientsWithAGraph) {
  at::Tensor gradient = at::rand({2, 3}).set_requires_grad(true);
  chain.start(gradient);
  EXPECT_EQ(gradient.use_count(), 1);
  chain.arrive(gradient);
  EXPECT_FALSE(chain.holds(1, 1));
}

// Autograd would add to a gradient in place if it were its only owner.
TEST_F(DeltaChainTest, HoldsTheTensorUntilItArrives) {
  const at::Tensor gradient = at::rand({2, 3});
  chain.start(gradient);
  EXPECT_EQ(gradient.use_count(), 2);
  chain.arrive(gradient);
  EXPECT_EQ(gradient.use_count(), 1);
}

// hidden = tanh(x): the gradient enters and leaves the function's node.
TEST_F(DeltaChainTest, WatchesAFunction) {
  const auto watched = std::make_shared<DeltaChain>();
  const at::Tensor x = at::rand({2, 3}).set_requires_grad(true);
  const at::Tensor doubled = x * 2, hidden = torch::tanh(doubled);
  watch_function(*hidden.grad_fn(), watched);
  hidden.register_hook([&](const at::Tensor& g) { watched->start(g); });
  doubled.register_hook([&](const at::Tensor& g) { watched->arrive(g); });
  hidden.backward(first, /*retain_graph=*/true);
  EXPECT_TRUE(watched->holds(1, 1));
  // Gradients of given inputs do not count.
  const auto ignored = std::make_shared<DeltaChain>();
  const at::Tensor other = torch::tanh(doubled);
  watch_function(*other.grad_fn(), ignored);
  ignored->start(first);
  torch::autograd::grad({other}, {x}, {first});
  ignored->arrive(first);
  EXPECT_TRUE(ignored->holds(1, 1));
}

}  // namespace
}  // namespace sheaf::parallel
