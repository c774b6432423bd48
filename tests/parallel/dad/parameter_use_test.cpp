#include "sheaf/parallel/dad/parameter_use.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// A layer with a bias, a layer without, and a table.
class ParameterUseTest : public testing::Test {
 protected:
  static at::Tensor trained(std::vector<std::int64_t> sizes) {
    return torch::ones(sizes).set_requires_grad(true);
  }
  // The uses in `forward`, which returns the outputs.
  std::vector<ParameterUse> uses_in(
      const std::function<std::vector<at::Tensor>()>& forward) const {
    std::vector<at::Tensor> tensors;
    for (const TrainedParameter& one : parameters)
      tensors.push_back(one.tensor);
    std::vector<Product> products;
    ProductWatch watch(tensors,
                       [&](const Product& one) { products.push_back(one); });
    watch.start();
    std::vector<at::Tensor> outputs = forward();
    watch.stop();
    std::vector<at::Tensor*> pointers;
    for (at::Tensor& one : outputs) pointers.push_back(&one);
    return find_uses(parameters, products, pointers);
  }

  const at::Tensor first = trained({3, 4});
  const at::Tensor bias = trained({3});
  const at::Tensor last = trained({2, 3});
  const at::Tensor table = trained({7, 4});
  const std::vector<TrainedParameter> parameters{
      {"first", first}, {"bias", bias}, {"last", last}, {"table", table}};
  // A quarter of the elements is not zero.
  const at::Tensor x = at::cat({at::ones({5, 1}), at::zeros({5, 3})}, 1);
};

TEST_F(ParameterUseTest, OfAChainOfLayers) {
  const auto uses = uses_in([&]() -> std::vector<at::Tensor> {
    return {at::linear(at::relu(at::linear(x, first, bias)), last)};
  });
  ASSERT_EQ(uses.size(), 4u);
  EXPECT_EQ(uses[0].name, "first");
  EXPECT_EQ(uses[0].elements, 12);
  EXPECT_EQ(uses[0].width, 4);
  EXPECT_EQ(uses[0].rows, 5);
  EXPECT_EQ(uses[0].calls, 1);
  EXPECT_EQ(uses[0].in, 4);
  EXPECT_EQ(uses[0].out, 3);
  EXPECT_EQ(uses[0].order, 0);
  EXPECT_TRUE(uses[0].takes_data);
  EXPECT_EQ(uses[0].density, 0.25);
  EXPECT_EQ(uses[0].above, 2);
  EXPECT_EQ(uses[0].biases, std::vector<std::size_t>{1});
  EXPECT_FALSE(uses[0].is_lookup || uses[0].has_other_use);

  EXPECT_EQ(uses[2].order, 1);
  EXPECT_FALSE(uses[2].takes_data);
  EXPECT_EQ(uses[2].density, 1);
  EXPECT_EQ(uses[2].above, -1);
  EXPECT_TRUE(uses[2].biases.empty());

  EXPECT_EQ(uses[3].calls, 0);
  EXPECT_EQ(uses[3].rows, 0);
  EXPECT_EQ(uses[3].order, kNever);
  EXPECT_FALSE(uses[3].has_other_use);
}

TEST_F(ParameterUseTest, OfALayerThatIsCalledTwice) {
  const auto uses = uses_in([&]() -> std::vector<at::Tensor> {
    const at::Tensor y = at::linear(x, first);
    const at::Tensor z = at::linear(at::zeros({2, 4}), first);
    return {at::linear(at::relu(y), last), z};
  });
  EXPECT_EQ(uses[0].calls, 2);
  EXPECT_EQ(uses[0].rows, 5 + 2);
  EXPECT_EQ(uses[0].above, -1) << "one of the calls has no layer above";
  EXPECT_FALSE(uses[0].has_other_use);
}

// The largest part counts.
TEST_F(ParameterUseTest, OfPartsOfAWeight) {
  const auto uses = uses_in([&]() -> std::vector<at::Tensor> {
    return {x.mm(first.narrow(0, 0, 2).t()), x.mm(first.narrow(0, 2, 1).t())};
  });
  EXPECT_EQ(uses[0].calls, 2);
  EXPECT_EQ(uses[0].in, 4);
  EXPECT_EQ(uses[0].out, 2);
}

TEST_F(ParameterUseTest, OutsideOfProducts) {
  const auto uses = uses_in([&]() -> std::vector<at::Tensor> {
    return {at::linear(x, first, bias), first.sum(), last.square().sum()};
  });
  EXPECT_TRUE(uses[0].has_other_use);
  EXPECT_TRUE(uses[2].has_other_use);
  EXPECT_EQ(uses[2].calls, 0);
}

TEST_F(ParameterUseTest, OfATable) {
  const auto uses = uses_in([&]() -> std::vector<at::Tensor> {
    const at::Tensor words = at::tensor({0, 6, 0}, at::kLong);
    return {at::linear(at::embedding(table, words), first)};
  });
  EXPECT_TRUE(uses[3].is_lookup);
  EXPECT_EQ(uses[3].rows, 3);
  EXPECT_EQ(uses[3].density, 1);
  EXPECT_EQ(uses[3].above, -1) << "a lookup has no deltas to derive";
  EXPECT_FALSE(uses[0].takes_data);
}

TEST(ParameterUse, HasAShapePerRank) {
  ParameterUse use;
  use.rows = 30;
  use.in = 4;
  use.out = 5;
  use.width = 8;
  use.is_lookup = true;
  const plan::FactorShape shape = shape_of(use, 4);
  EXPECT_EQ(shape.rows, 7.5);
  EXPECT_EQ(shape.in, 4);
  EXPECT_EQ(shape.out, 5);
  EXPECT_EQ(shape.width, 8);
  EXPECT_TRUE(shape.is_lookup);
}

// Rank 1 does not use the second parameter.
TEST(ParameterUse, OfAllRanksIsCombined) {
  comm::run_threads(2, [](const comm::Group& group) {
    const bool is_first = group.rank() == 0;
    std::vector<ParameterUse> mine(2);
    mine[0].name = "w";
    mine[0].elements = 12;
    mine[0].rows = is_first ? 5 : 7;
    mine[0].calls = is_first ? 2 : 1;
    mine[0].in = is_first ? 3 : 4;
    mine[0].out = is_first ? 6 : 2;
    mine[0].order = is_first ? 9 : 1;
    mine[0].density = is_first ? 0.25 : 0.5;
    mine[0].above = is_first ? -1 : 1;
    mine[0].takes_data = !is_first;
    mine[0].has_other_use = is_first;
    mine[0].biases = is_first ? std::vector<std::size_t>{4, 3}
                              : std::vector<std::size_t>{3, 5, 6};
    mine[1].order = kNever;
    if (is_first) {
      mine[1].rows = 8;
      mine[1].calls = 1;
      mine[1].order = 2;
      mine[1].is_lookup = true;
    }
    const auto all = share_uses(group, mine);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].name, "w");
    EXPECT_EQ(all[0].elements, 12);
    EXPECT_EQ(all[0].rows, 12);
    EXPECT_EQ(all[0].calls, 2);
    EXPECT_EQ(all[0].in, 4);
    EXPECT_EQ(all[0].out, 6);
    EXPECT_EQ(all[0].order, 1);
    EXPECT_EQ(all[0].density, 0.5);
    EXPECT_EQ(all[0].above, 1);
    EXPECT_TRUE(all[0].takes_data && all[0].has_other_use);
    EXPECT_FALSE(all[0].is_lookup);
    EXPECT_EQ(all[0].biases, (std::vector<std::size_t>{4, 3, 5, 6}));
    EXPECT_EQ(all[1].rows, 8);
    EXPECT_EQ(all[1].order, 2);
    EXPECT_TRUE(all[1].is_lookup);
    EXPECT_EQ(all[1].above, -1);
    EXPECT_TRUE(all[1].biases.empty());
  });
}

}  // namespace
}  // namespace sheaf::parallel
