#include "sheaf/tensor/groups/differentiable.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/make_group.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/tensor/groups/differentiable_cases.hpp"

namespace sheaf::tensor::differentiable {
namespace {

using comm::ReduceOp;
using comm::run_threads;
using test::Ending;
using test::Outcome;

class Differentiable : public testing::TestWithParam<DifferentiableCase> {};

TEST_P(Differentiable, EqualsOneProcess) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    run_threads(
        ranks, [](const Group& group) { expect_reference(GetParam(), group); });
}

TEST_P(Differentiable, EqualsOneProcessOnSeveralHosts) {
  run_threads(test::Hosts{"a", "a", "b"},
              [](const Group& group) { expect_reference(GetParam(), group); });
}

INSTANTIATE_TEST_SUITE_P(Functions, Differentiable,
                         testing::ValuesIn(differentiable_cases()),
                         [](const auto& info) { return info.param.name; });

// Numbers of ranks that are powers of two divide exactly.
TEST(DifferentiableAverage, DividesResultAndGradient) {
  for (const int ranks : {1, 2, 4})
    run_threads(ranks, [=](const Group& group) {
      const CollectiveOptions average{.op = ReduceOp::kAvg};
      const at::Tensor weight = at::full({4}, group.rank() + 1.0);
      const double mean = (ranks + 1) / 2.0;
      for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
        const at::Tensor x = weight.to(type).clone().requires_grad_();
        const at::Tensor y = all_reduce(group, x, average);
        EXPECT_TRUE((y == mean).all().item<bool>()) << y;
        (y * weight.to(type)).sum().backward();
        EXPECT_TRUE((take_gradient(x) == mean).all().item<bool>());
        (reduce_scatter(group, x, average) * ranks).sum().backward();
        EXPECT_TRUE((take_gradient(x) == 1).all().item<bool>());
        const at::Tensor z = reduce(group, x, average);
        EXPECT_TRUE((z == (group.rank() == 0 ? mean : 0)).all().item<bool>());
        (z * ranks).sum().backward();
        EXPECT_TRUE((take_gradient(x) == 1).all().item<bool>());
      }
    });
}

TEST(DifferentiableCollectives, LeaveTheInputAndExchangeIntegers) {
  run_threads(2, [](const Group& group) {
    const at::Tensor x = at::full({2}, group.rank() + 1);
    EXPECT_TRUE(all_reduce(group, x).equal(at::full({2}, 3)));
    EXPECT_TRUE(broadcast(group, x, {.root = 1}).equal(at::full({2}, 2)));
    EXPECT_TRUE(x.equal(at::full({2}, group.rank() + 1)));
    EXPECT_FALSE(all_gather(group, x)[0].requires_grad());
  });
}

// Rank 1 needs no gradient itself, but rank 0 needs its part.
TEST(DifferentiableCollectives, ARankWithoutGradientTakesPart) {
  run_threads(3, [](const Group& group) {
    const at::Tensor x = at::full({2}, 2.0);
    if (group.rank() != 1) x.requires_grad_();
    const at::Tensor y = all_reduce(group, x);
    EXPECT_TRUE(y.requires_grad());
    (y * (group.rank() + 1)).sum().backward();
    EXPECT_EQ(x.grad().defined(), group.rank() != 1);
    if (x.grad().defined()) {
      EXPECT_TRUE(x.grad().equal(at::full({2}, 6.0)));
    }
  });
}

TEST(DifferentiableCollectives, DisabledGradientsOnAllRanksAreFine) {
  run_threads(2, [](const Group& group) {
    const at::NoGradGuard no_grad;
    const at::Tensor x = at::ones({2}).requires_grad_();
    EXPECT_FALSE(all_reduce(group, x).requires_grad());
  });
}

std::vector<Outcome> two_ranks(
    const std::function<void(const Group&, const at::Tensor&)>& body,
    int deserter = -1) {
  const test::ExpectFailures failures;
  return test::outcomes(
      {"a", "a"},
      [&](const Group& group) { body(group, at::ones({4}).requires_grad_()); },
      deserter);
}

void expect_mismatch(const std::vector<Outcome>& outcomes,
                     const std::string& words) {
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.ending, Ending::kMismatch) << outcome;
    EXPECT_TRUE(outcome.names(words)) << outcome;
  }
}

TEST(DifferentiableMismatch, OneRankHasDisabledGradients) {
  expect_mismatch(two_ranks([](const Group& group, const at::Tensor& x) {
                    const at::AutoGradMode mode(group.rank() == 0);
                    all_reduce(group, x);
                  }),
                  "NoGradGuard");
}

TEST(DifferentiableMismatch, DifferentFunctionsShapesAndTypes) {
  expect_mismatch(two_ranks([](const Group& group, const at::Tensor& x) {
                    group.rank() == 0 ? all_reduce(group, x)
                                      : broadcast(group, x);
                  }),
                  "differentiable broadcast of Float [4]");
  expect_mismatch(two_ranks([](const Group& group, const at::Tensor& x) {
                    all_reduce(group, group.rank() == 0 ? x : x.view({2, 2}));
                  }),
                  "Float [2, 2]");
  expect_mismatch(two_ranks([](const Group& group, const at::Tensor& x) {
                    all_gather(group,
                               group.rank() == 0 ? x : x.to(at::kDouble));
                  }),
                  "all_gather of Double");
}

TEST(DifferentiableMismatch, BackwardPassesInDifferentOrders) {
  expect_mismatch(two_ranks([](const Group& group, const at::Tensor& x) {
                    Tensors sums{all_reduce(group, x), all_reduce(group, x)};
                    if (group.rank() == 1) std::swap(sums[0], sums[1]);
                    for (const at::Tensor& sum : sums) sum.sum().backward();
                  }),
                  "backward of differentiable all_reduce");
}

TEST(DifferentiableMismatch, GradientsOfGradientsNeedAllRanks) {
  expect_mismatch(two_ranks([](const Group& group, const at::Tensor& x) {
                    const at::Tensor y =
                        all_reduce(group, group.rank() == 0 ? x : x.detach());
                    (y * y).sum().backward({}, /*keep_graph=*/true,
                                           /*create_graph=*/true);
                  }),
                  "create_graph");
}

TEST(DifferentiableMismatch, ARankThatNeverRunsBackwardIsNamed) {
  const auto outcomes = two_ranks(
      [](const Group& group, const at::Tensor& x) {
        const at::Tensor y = all_reduce(group, x);
        if (group.rank() == 0) y.sum().backward();
      },
      /*deserter=*/1);
  EXPECT_EQ(outcomes[0].ending, Ending::kCommError) << outcomes[0];
  EXPECT_TRUE(outcomes[0].names("rank 1")) << outcomes[0];
}

TEST(DifferentiableUsage, StatesWhatIsAllowed) {
  run_threads(1, [](const Group& group) {
    const at::Tensor x = at::ones({3});
    EXPECT_THROW(all_reduce(group, x, {.op = ReduceOp::kMax}), UsageError);
    EXPECT_THROW(all_reduce(group, x, {.async = true}), UsageError);
    EXPECT_THROW(all_reduce(group, at::Tensor()), UsageError);
    EXPECT_THROW(all_reduce(group, x.to_sparse()), UsageError);
    EXPECT_THROW(all_to_all(group, {x, x}), UsageError);
    EXPECT_THROW(reduce_scatter(group, at::ones({})), UsageError);
    EXPECT_THROW(scatter(group, {x.to(at::kDouble)}, x), UsageError);
    const std::vector<std::int64_t> sixteen_axes(16, 1);
    EXPECT_THROW(all_gather(group, at::ones(sixteen_axes)), UsageError);
  });
}

}  // namespace
}  // namespace sheaf::tensor::differentiable
