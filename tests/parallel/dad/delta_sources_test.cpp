#include "sheaf/parallel/dad/delta_sources.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sheaf::parallel {
namespace {

// Two layers with weights 0 and 1: y = tanh(x A) B.
class DeltaSourcesTest : public testing::Test {
 protected:
  DeltaSourcesTest() {
    ProductWatch watch(weights, [this](Product one) { see(one); });
    watch.start();
    y = torch::tanh(torch::ones({2, 3}).mm(weights[0])).mm(weights[1]);
    watch.stop();
  }
  void see(const Product& product) {
    const CallTicket ticket = rows.add(product);
    const auto tap = ProductTap::attach(
        product, {[] { return false; }, [](const at::Tensor&) {}, [] {}});
    seen.push_back({product.nodes(), product.weight, ticket.block, tap});
  }
  void find(bool allows) {
    find_delta_sources(seen, {&y}, [&](std::size_t above, std::size_t below) {
      EXPECT_EQ(above, 1u);
      EXPECT_EQ(below, 0u);
      return allows;
    });
  }

  const std::vector<at::Tensor> weights{
      torch::ones({3, 4}).set_requires_grad(true),
      torch::ones({4, 2}).set_requires_grad(true)};
  const std::vector<TrainedParameter> parameters{{"a", weights[0]},
                                                 {"b", weights[1]}};
  WaitingRows rows{parameters};
  std::vector<SeenProduct> seen;
  at::Tensor y;
};

TEST_F(DeltaSourcesTest, TheLayerBelowFollowsFromTheLayerAbove) {
  ASSERT_EQ(seen.size(), 2u);
  find(/*allows=*/true);
  EXPECT_EQ(seen[0].block->source.above, seen[1].block->key);
  EXPECT_EQ(seen[0].block->source.activation, Activation::kTanh);
  ASSERT_TRUE(seen[0].block->chain);
  EXPECT_LT(seen[1].block->source.above.weight, 0);
  y.sum().backward();
  EXPECT_TRUE(seen[0].block->chain->holds(1, 1));
}

TEST_F(DeltaSourcesTest, OnlyWhereItIsAllowed) {
  find(/*allows=*/false);
  EXPECT_LT(seen[0].block->source.above.weight, 0);
  EXPECT_FALSE(seen[0].block->chain);
}

TEST_F(DeltaSourcesTest, NotIfALayerWasCalledTwice) {
  Product again;
  again.weight = 1;
  again.view = seen[1].block->key.view;
  again.input = torch::ones({2, 4});
  rows.add(again);
  find(/*allows=*/true);
  EXPECT_LT(seen[0].block->source.above.weight, 0);
}

}  // namespace
}  // namespace sheaf::parallel
