#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/dad/waiting_rows.hpp"

// The bookkeeping of WaitingRows; waiting_rows_test.cpp has whole trainings.
namespace sheaf::parallel {
namespace {

class WaitingCallsTest : public testing::Test {
 protected:
  Product product(std::size_t weight, double value, std::int64_t rows = 2) {
    Product one;
    one.weight = weight;
    one.view = {.in = 3, .out = 2, .in_stride = 1, .out_stride = 3};
    one.input = torch::full({rows, 3}, value);
    return one;
  }
  at::Tensor delta(double value, std::int64_t rows = 2) {
    return torch::full({rows, 2}, value);
  }
  void expect_rows(const std::vector<at::Tensor>& rows,
                   const std::vector<double>& values) {
    ASSERT_EQ(rows.size(), values.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_TRUE(rows[i].eq(values[i]).all().item<bool>()) << rows[i];
  }
  void end_pass() { rows.end_pass({true, true}); }

  std::vector<TrainedParameter> parameters{{"a", torch::ones({2, 3})},
                                           {"b", torch::ones({2, 3})}};
  WaitingRows rows{parameters};
};

TEST_F(WaitingCallsTest, InputsAreSentEarlyAndOnce) {
  EXPECT_TRUE(rows.is_empty());
  const auto ticket = rows.add(product(0, 5));
  EXPECT_FALSE(rows.is_empty());
  EXPECT_TRUE(rows.has_calls(0, 1));
  EXPECT_FALSE(rows.has_calls(0, 2));
  EXPECT_FALSE(rows.has_deltas(0, 1));
  const auto forward = rows.pack({0, 1}, /*is_backward=*/false);
  ASSERT_EQ(forward.size(), 1u);
  expect_rows(forward[0].inputs, {5});
  EXPECT_TRUE(forward[0].deltas.empty());

  rows.begin_pass();
  rows.take_delta(ticket, delta(2), /*is_local=*/false);
  EXPECT_TRUE(rows.has_new_delta(0));
  EXPECT_TRUE(rows.has_deltas(0, 1));
  const auto backward = rows.pack({0}, /*is_backward=*/true);
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_TRUE(backward[0].inputs.empty());
  expect_rows(backward[0].deltas, {2});
  end_pass();
  EXPECT_TRUE(rows.is_empty());
  EXPECT_FALSE(rows.has_new_delta(0));
}

TEST_F(WaitingCallsTest, DeltasOfACallAreSummed) {
  const auto ticket = rows.add(product(0, 5));
  rows.take_delta(ticket, delta(2), /*is_local=*/false);
  rows.take_delta(ticket, delta(3), /*is_local=*/false);
  const auto packed = rows.pack({0}, /*is_backward=*/true);
  ASSERT_EQ(packed.size(), 1u);
  expect_rows(packed[0].deltas, {5});
  expect_rows(packed[0].inputs, {5});
}

// Inputs that were sent and have no delta are listed by first row and count.
TEST_F(WaitingCallsTest, EarlyInputsWithoutDeltasAreVoid) {
  rows.add(product(0, 5, 2));
  rows.add(product(0, 6, 3));
  const auto last = rows.add(product(0, 7, 1));
  rows.pack({0}, /*is_backward=*/false);
  rows.take_delta(last, delta(2, 1), /*is_local=*/false);
  const auto packed = rows.pack({0}, /*is_backward=*/true);
  ASSERT_EQ(packed.size(), 1u);
  EXPECT_EQ(packed[0].voids, (Numbers{0, 2, 2, 3}));
  expect_rows(packed[0].deltas, {2});
}

// An input that was not sent yet is not sent at all without a delta.
TEST_F(WaitingCallsTest, LaterInputsWithoutDeltasAreNotVoid) {
  const auto first = rows.add(product(0, 5));
  rows.pack({0}, /*is_backward=*/false);
  rows.add(product(0, 6));
  rows.take_delta(first, delta(2), /*is_local=*/false);
  const auto packed = rows.pack({0}, /*is_backward=*/true);
  ASSERT_EQ(packed.size(), 1u);
  EXPECT_TRUE(packed[0].voids.empty());
  EXPECT_TRUE(packed[0].inputs.empty());
  expect_rows(packed[0].deltas, {2});
}

TEST_F(WaitingCallsTest, WithoutDeltasNothingIsSent) {
  rows.add(product(0, 5));
  EXPECT_TRUE(rows.pack({0}, /*is_backward=*/true).empty());
}

TEST_F(WaitingCallsTest, ADroppedCallIsNotSent) {
  const auto first = rows.add(product(0, 5));
  const auto second = rows.add(product(0, 6));
  rows.drop(first);
  const auto packed = rows.pack({0}, /*is_backward=*/false);
  ASSERT_EQ(packed.size(), 1u);
  expect_rows(packed[0].inputs, {6});
  rows.drop(second);  // was sent
  EXPECT_TRUE(rows.has_calls(0, 1));
}

// A graph that is kept may be used again after its gradients were reset.
TEST_F(WaitingCallsTest, ADroppedCallReturnsToItsPlace) {
  const auto first = rows.add(product(0, 5));
  const auto second = rows.add(product(0, 6));
  rows.drop(first);
  EXPECT_FALSE(rows.has_calls(0, 2));
  rows.take_delta(second, delta(3), /*is_local=*/false);
  rows.take_delta(first, delta(2), /*is_local=*/false);
  EXPECT_TRUE(rows.has_calls(0, 2));
  const auto packed = rows.pack({0}, /*is_backward=*/true);
  ASSERT_EQ(packed.size(), 1u);
  expect_rows(packed[0].inputs, {5, 6});
  expect_rows(packed[0].deltas, {2, 3});
}

TEST_F(WaitingCallsTest, ADeltaAfterItsPassIsANewCall) {
  const auto ticket = rows.add(product(0, 5));
  end_pass();
  rows.add(product(0, 6));
  rows.take_delta(ticket, delta(2), /*is_local=*/false);
  EXPECT_TRUE(rows.has_calls(0, 2));
  const auto packed = rows.pack({0}, /*is_backward=*/true);
  ASSERT_EQ(packed.size(), 1u);
  expect_rows(packed[0].inputs, {5});
}

TEST_F(WaitingCallsTest, InputsMustNotChange) {
  const Product changed = product(0, 5);
  rows.add(changed);
  changed.input.add_(1);
  EXPECT_THROW(rows.pack({0}, /*is_backward=*/false), UsageError);
  EXPECT_THROW(rows.pack({0}, /*is_backward=*/false), UsageError);
}

TEST_F(WaitingCallsTest, LocalRowsWaitForTheNextPass) {
  const auto kept = rows.add(product(0, 5));
  const auto other = rows.add(product(1, 6));
  rows.take_delta(kept, delta(2), /*is_local=*/true);
  rows.take_delta(other, delta(3), /*is_local=*/true);
  EXPECT_TRUE(rows.has_local(0));
  rows.end_pass({false, true});
  EXPECT_TRUE(rows.has_local(0));
  EXPECT_FALSE(rows.has_local(1));
  EXPECT_TRUE(rows.has_local());
  const auto packed = rows.pack({0, 1}, /*is_backward=*/true);
  ASSERT_EQ(packed.size(), 1u);
  EXPECT_EQ(packed[0].block.weight, 0);
  expect_rows(packed[0].deltas, {2});
}

TEST_F(WaitingCallsTest, LocalRowsAreForgottenWithTheirGradient) {
  const auto ticket = rows.add(product(0, 5));
  rows.take_delta(ticket, delta(2), /*is_local=*/true);
  rows.forget_reset(0, /*is_changed=*/false);  // nothing has happened
  EXPECT_TRUE(rows.has_local(0));
  parameters[0].tensor.mutable_grad().reset();
  rows.forget_reset(0, /*is_changed=*/false);
  EXPECT_FALSE(rows.has_local(0));
  EXPECT_TRUE(rows.is_empty());
}

TEST_F(WaitingCallsTest, AChangedGradientOfLocalRowsIsAnError) {
  const auto ticket = rows.add(product(0, 5));
  rows.take_delta(ticket, delta(2), /*is_local=*/true);
  at::Tensor& gradient = parameters[0].tensor.mutable_grad();
  gradient.add_(1);
  EXPECT_THROW(rows.forget_reset(0, /*is_changed=*/false), UsageError);
  rows.forget_reset(0, /*is_changed=*/true);
  rows.renew_mark(0);
  rows.forget_reset(0, /*is_changed=*/false);
  gradient = torch::ones({2, 3});
  EXPECT_THROW(rows.forget_reset(0, /*is_changed=*/false), UsageError);
}

TEST_F(WaitingCallsTest, AMarkTellsWhetherTheGradientIsUnchanged) {
  EXPECT_FALSE(rows.remove_mark(0));  // there is none
  for (const bool changes : {false, true}) {
    const auto ticket = rows.add(product(0, 5));
    rows.take_delta(ticket, delta(2), /*is_local=*/true);
    if (changes) parameters[0].tensor.mutable_grad().add_(1);
    EXPECT_EQ(rows.remove_mark(0), !changes);
    EXPECT_FALSE(rows.has_local(0));
    end_pass();
  }
}

TEST_F(WaitingCallsTest, BlocksDifferByTheirBias) {
  Product with_bias = product(0, 5);
  with_bias.bias = 1;
  rows.add(product(0, 4));
  rows.add(with_bias);
  rows.add(product(0, 6));
  const auto packed = rows.pack({0}, /*is_backward=*/false);
  ASSERT_EQ(packed.size(), 2u);
  expect_rows(packed[0].inputs, {4, 6});
  expect_rows(packed[1].inputs, {5});
  EXPECT_EQ(rows.biases_of(0), std::vector<std::size_t>{1});
}

// The layer above may have any weight, also the first.
TEST_F(WaitingCallsTest, DeltasThatFollowFromAboveAreNotSent) {
  for (const std::size_t above : {0, 1}) {
    const auto below_ticket = rows.add(product(1 - above, 5));
    const auto above_ticket = rows.add(product(above, 6));
    WaitingBlock& block = *below_ticket.block;
    block.source.above = above_ticket.block->key;
    block.chain = std::make_shared<DeltaChain>();
    const at::Tensor passing = delta(3);
    block.chain->start(passing);
    block.chain->arrive(passing);
    rows.take_delta(above_ticket, delta(2), /*is_local=*/false);
    rows.take_delta(below_ticket, passing, /*is_local=*/false);
    const auto packed = rows.pack({1 - above}, /*is_backward=*/true);
    ASSERT_EQ(packed.size(), 1u);
    expect_rows(packed[0].inputs, {5});
    EXPECT_TRUE(packed[0].deltas.empty()) << "above is weight " << above;
    EXPECT_EQ(packed[0].source.above.weight, static_cast<std::int64_t>(above));
    end_pass();
  }
}

}  // namespace
}  // namespace sheaf::parallel
