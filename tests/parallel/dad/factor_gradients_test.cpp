#include "sheaf/parallel/dad/factor_gradients.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/parallel/dad/factor_parts.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

// Averages over two ranks.
class FactorGradientsTest : public testing::Test {
 protected:
  static FactorPart part(const BlockKey& block, const at::Tensor& inputs,
                         const at::Tensor& deltas) {
    return factor_part(block, inputs, deltas);
  }
  static at::Tensor full(std::int64_t rows, std::int64_t width, double value) {
    return torch::full({rows, width}, value);
  }
  void expect_value(std::size_t parameter, double value) {
    ASSERT_TRUE(gradients.is_made(parameter));
    const at::Tensor& got = gradients.gradient(parameter);
    EXPECT_EQ(got.sizes(), parameters[parameter].tensor.sizes());
    EXPECT_TRUE(got.eq(value).all().item<bool>()) << got;
  }

  const BlockKey kW{0, -1, whole_weight(3, 2)};
  const BlockKey kWithBias{0, 1, whole_weight(3, 2)};
  const BlockKey kAbove{2, -1, whole_weight(2, 4)};
  const BlockKey kTable{3, -1, whole_table(4, 2)};

  const std::vector<TrainedParameter> parameters{
      {"w", torch::ones({2, 3})},
      {"bias", torch::ones({2})},
      {"above", torch::ones({4, 2})},
      {"table", torch::ones({4, 2})}};
  FactorGradients gradients{parameters, /*ranks=*/2};
};

TEST_F(FactorGradientsTest, AreTheAverageOverRanks) {
  EXPECT_FALSE(gradients.is_made(0));
  gradients.take(1, part(kW, full(2, 3, 1), full(2, 2, 4)), true);
  gradients.take(0, part(kW, full(1, 3, 3), full(1, 2, 2)), true);
  EXPECT_EQ(gradients.make(0), 3);
  expect_value(0, (2 * 1 * 4 + 3 * 2) / 2.0);
  EXPECT_FALSE(gradients.is_made(1)) << "without a bias";
}

TEST_F(FactorGradientsTest, InputsMayArriveBeforeDeltas) {
  for (const int rank : {0, 1})
    gradients.take(rank, part(kW, full(2, 3, rank + 1), {}), false);
  for (const int rank : {0, 1})
    gradients.take(rank, part(kW, {}, full(2, 2, 2)), true);
  EXPECT_EQ(gradients.make(0), 4);
  expect_value(0, 2 * (1 + 2));
}

TEST_F(FactorGradientsTest, RowsWithoutDeltasAreRemoved) {
  const at::Tensor rows = torch::arange(1, 6, at::kFloat).unsqueeze(1);
  gradients.take(0, part(kW, rows.expand({5, 3}), {}), false);
  FactorPart late = part(kW, {}, torch::tensor({{1.f, 1.f}, {10.f, 10.f}}));
  // The rows 1, 3 and 4 of five.
  late.voids = torch::tensor({0, 1, 2, 2}, at::kLong).view({2, 2});
  gradients.take(0, late, true);
  EXPECT_EQ(gradients.make(0), 2);
  expect_value(0, (1 * 2 + 10 * 5) / 2.0);
}

TEST_F(FactorGradientsTest, ABiasHasTheSumOfTheDeltas) {
  for (const int rank : {0, 1})
    gradients.take(rank, part(kWithBias, full(2, 3, 1), full(2, 2, 3 + rank)),
                   true);
  gradients.make(0);
  expect_value(0, 2 * (3 + 4) / 2.0);
  expect_value(1, 2 * (3 + 4) / 2.0);
}

// Low-rank factors do not have all rows.
TEST_F(FactorGradientsTest, AGivenSumOverridesThatOfTheDeltas) {
  for (const int rank : {0, 1}) {
    FactorPart one = part(kWithBias, full(1, 3, 1), full(1, 2, 3));
    one.bias_sum = torch::full({2}, 10.0 + rank);
    gradients.take(rank, one, true);
  }
  gradients.make(0);
  expect_value(0, 3);
  expect_value(1, (10 + 11) / 2.0);
}

// Two weights add the same bias.
TEST_F(FactorGradientsTest, ABiasOfSeveralWeightsHasTheSumOfBoth) {
  const BlockKey other{2, 1, whole_weight(2, 2)};
  gradients.take(0, part(kWithBias, full(1, 3, 1), full(1, 2, 6)), true);
  gradients.take(0, part(other, full(1, 2, 1), full(1, 2, 8)), true);
  gradients.make(0);
  expect_value(1, 3);
  gradients.make(2);
  expect_value(1, 3 + 4);
}

TEST_F(FactorGradientsTest, PartsOfAWeightLeaveTheRestZero) {
  BlockKey second_row = kW;
  second_row.view.out = 1;
  second_row.view.offset = 3;
  gradients.take(0, part(second_row, full(1, 3, 1), full(1, 1, 4)), true);
  gradients.make(0);
  EXPECT_TRUE(gradients.gradient(0).equal(
      torch::tensor({{0.f, 0.f, 0.f}, {2.f, 2.f, 2.f}})));
  gradients.clear();
  gradients.take(0, part(second_row, full(1, 3, 1), full(1, 1, 4)), true);
  gradients.take(0, part(kW, full(1, 3, 1), full(1, 2, 2)), true);
  gradients.make(0);
  EXPECT_TRUE(gradients.gradient(0).equal(
      torch::tensor({{1.f, 1.f, 1.f}, {3.f, 3.f, 3.f}})));
}

// A negative index belongs to padding.
TEST_F(FactorGradientsTest, LookupsAddToTheRowsOfATable) {
  const at::Tensor deltas =
      torch::tensor({{1.f, 10.f}, {2.f, 20.f}, {3.f, 30.f}, {9.f, 90.f}});
  gradients.take(
      0,
      part(kTable, torch::tensor({1, 3, 1, -1}, at::kLong).view({4, 1}),
           deltas),
      true);
  EXPECT_EQ(gradients.make(3), 4);
  EXPECT_TRUE(gradients.gradient(3).equal(
      torch::tensor({{0.f, 0.f}, {2.f, 20.f}, {0.f, 0.f}, {1.f, 10.f}})));
}

// relu passes the gradient where its result is positive.
TEST_F(FactorGradientsTest, DeltasAreDerivedFromTheLayerAbove) {
  for (const bool needs_portable : {false, true}) {
    gradients.clear();
    const at::Tensor hidden = torch::tensor({{1.f, 0.f}, {0.f, 1.f}});
    FactorPart above = part(kAbove, hidden, full(2, 4, 1));
    above.needs_portable = needs_portable;
    FactorPart below = part(kW, full(2, 3, 1), {});
    below.source = {kAbove, Activation::kRelu};
    gradients.take(0, below, true);
    gradients.take(0, above, true);
    FactorPart nothing;  // of a rank without rows
    nothing.block = kW;
    nothing.source = below.source;
    gradients.take(1, nothing, true);
    EXPECT_EQ(gradients.make(0), 2);
    expect_value(0, 4 / 2.0);  // four outputs above, one row each
  }
}

TEST_F(FactorGradientsTest, ADeltaWithoutItsSourceIsABug) {
  FactorPart below = part(kW, full(2, 3, 1), {});
  below.source = {kAbove, Activation::kIdentity};
  gradients.take(0, below, true);
  expect_throws<InternalError>([&] { gradients.make(0); },
                               {"no deltas of above"});
}

TEST_F(FactorGradientsTest, InputsAndDeltasHaveTheSameRows) {
  gradients.take(0, part(kW, full(2, 3, 1), full(3, 2, 1)), true);
  expect_throws<InternalError>([&] { gradients.make(0); },
                               {"w has 2 rows of inputs and 3 of deltas"});
}

// As opposed to no gradient.
TEST_F(FactorGradientsTest, APartWithoutRowsIsAGradientOfZeros) {
  gradients.take(0, part(kWithBias, {}, {}), false);
  EXPECT_EQ(gradients.make(0), 0);
  EXPECT_FALSE(gradients.is_made(0)) << "no deltas";
  gradients.take(0, part(kWithBias, {}, {}), true);
  EXPECT_EQ(gradients.make(0), 0);
  expect_value(0, 0);
  expect_value(1, 0);
}

TEST_F(FactorGradientsTest, RowsOfAnotherRankCountBesideOneWithoutRows) {
  gradients.take(0, part(kWithBias, {}, {}), true);
  gradients.take(1, part(kWithBias, full(2, 3, 1), full(2, 2, 1)), true);
  EXPECT_EQ(gradients.make(0), 2);
  expect_value(0, 1);
  expect_value(1, 1);
}

TEST_F(FactorGradientsTest, PortableProductsGiveTheSame) {
  FactorPart one = part(kWithBias, full(2, 3, 3), full(2, 2, 5));
  one.needs_portable = true;
  gradients.take(0, one, true);
  gradients.take(1, part(kWithBias, full(1, 3, 1), full(1, 2, 2)), true);
  EXPECT_EQ(gradients.make(0), 3);
  expect_value(0, (2 * 3 * 5 + 2) / 2.0);
  expect_value(1, (2 * 5 + 2) / 2.0);
}

TEST_F(FactorGradientsTest, MemoryIsUsedAgainUnlessOthersHoldIt) {
  const auto make = [this](double value) {
    gradients.clear();
    EXPECT_FALSE(gradients.is_made(0));
    gradients.take(0, part(kW, full(1, 3, 1), full(1, 2, 2 * value)), true);
    gradients.make(0);
    expect_value(0, value);
    return gradients.gradient(0).data_ptr();
  };
  const void* const first = make(1);
  EXPECT_EQ(make(2), first);
  const at::Tensor kept = gradients.gradient(0);
  EXPECT_NE(make(3), first);
  EXPECT_TRUE(kept.eq(2).all().item<bool>()) << kept;
  const void* const second = make(4);
  const at::Tensor view = gradients.gradient(0).narrow(0, 0, 1);
  EXPECT_NE(make(5), second);
  EXPECT_TRUE(view.eq(4).all().item<bool>()) << view;
}

}  // namespace
}  // namespace sheaf::parallel
