#include "sheaf/parallel/products/graph.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sheaf::parallel {
namespace {

at::Tensor leaf(std::int64_t rows, std::int64_t columns) {
  return at::rand({rows, columns}).set_requires_grad(true);
}

LayerNodes nodes_of(const at::Tensor& output, const at::Tensor& input) {
  return {output.grad_fn(), input.grad_fn(), true};
}

TEST(Graph, CountsEveryPathToANode) {
  const at::Tensor w = leaf(3, 3);
  const at::Tensor a = w.mm(w);
  at::Tensor once = a.relu();
  at::Tensor twice = a + a.tanh();
  const auto arrivals = count_arrivals({&once, &twice});
  EXPECT_EQ(arrivals.at(a.grad_fn().get()), 3);
}

TEST(Graph, DerivativesFollowFromValues) {
  const at::Tensor x = leaf(4, 5);
  const at::Tensor delta = at::rand({4, 5});
  for (const at::Tensor& y : {x.relu(), x.tanh(), x.sigmoid()}) {
    const auto activation = activation_of(*y.grad_fn());
    ASSERT_TRUE(activation);
    const at::Tensor wanted = torch::autograd::grad({y}, {x}, {delta})[0];
    EXPECT_TRUE(
        at::allclose(times_derivative(delta, *activation, y.detach()), wanted));
  }
  EXPECT_FALSE(activation_of(*x.exp().grad_fn()));
}

TEST(Graph, FindsTheLayerAboveInAPlainChain) {
  const at::Tensor w1 = leaf(4, 4), w2 = leaf(4, 4);
  const at::Tensor x = at::rand({2, 4});
  const at::Tensor y1 = x.mm(w1), h = y1.relu();
  at::Tensor y2 = h.mm(w2);
  const std::vector<LayerNodes> layers{nodes_of(y1, x), nodes_of(y2, h)};
  const auto above = find_above(layers, {&y2});
  ASSERT_TRUE(above[0]);
  EXPECT_EQ(above[0]->layer, 1);
  EXPECT_EQ(above[0]->activation, Activation::kRelu);
  EXPECT_FALSE(above[1]) << "nothing is above the last one";
  // Something else uses the tensor between the layers.
  at::Tensor also = h.sum();
  EXPECT_FALSE(find_above(layers, {&y2, &also})[0]);
  at::Tensor before = y1.sum();
  EXPECT_FALSE(find_above(layers, {&y2, &before})[0]);
}

TEST(Graph, AnythingElseBetweenLayersIsNoPlainChain) {
  const at::Tensor w1 = leaf(4, 4), w2 = leaf(4, 4);
  const at::Tensor x = at::rand({2, 4});
  const at::Tensor y1 = x.mm(w1), h = y1.exp();
  at::Tensor y2 = h.mm(w2);
  EXPECT_FALSE(find_above({nodes_of(y1, x), nodes_of(y2, h)}, {&y2})[0]);
}

}  // namespace
}  // namespace sheaf::parallel
