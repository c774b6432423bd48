// The rests of low-rank factors in checkpoints.
#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/dad/factor_exchange.hpp"
#include "tests/parallel/dad/factor_parts.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

const FactorExchangeOptions kOneRow{.low_rank = {.rank = 1}};
const FactorExchangeOptions kOneRowTwoWay{
    .where = Where::kStar, .low_rank = {.rank = 1}, .is_two_way = true};

// What rank 0 saves after one pass with different factors on each rank.
NamedTensors saved_feedback(int ranks, const FactorExchangeOptions& options) {
  NamedTensors saved;
  run_threads(ranks, [&](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad}, options);
    auto generator = at::detail::createCPUGenerator(1);
    FactorParcel parcel;
    parcel.parts.push_back(
        factor_part({0, -1, whole_weight(6, 5)},
                    at::rand({4, 6}, generator, at::kDouble) + group.rank(),
                    at::rand({4, 5}, generator, at::kDouble) - group.rank()));
    exchange.share(parcel);
    exchange.end_pass();
    const NamedTensors state = exchange.gather_feedback();
    if (group.rank() == 0)
      saved = state;
    else
      EXPECT_TRUE(state.empty());
  });
  return saved;
}

std::vector<std::string> names_in(const NamedTensors& saved) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : saved) names.push_back(name);
  return names;
}

TEST(FactorFeedback, IsNamedByRankAndPart) {
  const NamedTensors saved = saved_feedback(2, kOneRow);
  EXPECT_EQ(names_in(saved),
            (std::vector<std::string>{
                "feedback/ranks", "feedback/0/0/block", "feedback/0/0/inputs",
                "feedback/0/0/deltas", "feedback/1/0/block",
                "feedback/1/0/inputs", "feedback/1/0/deltas"}));
  EXPECT_EQ(saved[0].second.item<std::int64_t>(), 2);
}

TEST(FactorFeedback, HasTheRestOfTheSum) {
  const auto names = names_in(saved_feedback(2, kOneRowTwoWay));
  ASSERT_EQ(names.size(), 10u);
  EXPECT_EQ(names[7], "feedback/sum/0/block");
}

TEST(FactorFeedback, IsTheSameAfterLoading) {
  for (const FactorExchangeOptions& options : {kOneRow, kOneRowTwoWay}) {
    const NamedTensors saved = saved_feedback(2, options);
    run_threads(2, [&](const Group& group) {
      FactorExchange exchange(group, {Route::kRankDad}, options);
      exchange.load_feedback(saved);
      const NamedTensors again = exchange.gather_feedback();
      if (group.rank() == 0)
        EXPECT_TRUE(sheaf::test::has_same_bits(again, saved));
    });
  }
}

// The average of the rests is unchanged when the number of ranks changes.
TEST(FactorFeedback, MovesToOtherNumbersOfRanks) {
  const auto mean_left = [&](const NamedTensors& saved) {
    at::Tensor sum = at::zeros({5, 6}, at::kDouble);
    for (std::size_t i = 1; i < saved.size(); i += 3)
      sum += saved[i + 2].second.t().mm(saved[i + 1].second);
    return sum / saved[0].second.item<double>();
  };
  const NamedTensors saved = saved_feedback(2, kOneRow);
  const at::Tensor before = mean_left(saved);
  ASSERT_GT(before.norm().item<double>(), 1e-3);
  for (const int ranks : {1, 3}) {
    run_threads(ranks, [&](const Group& group) {
      FactorExchange exchange(group, {Route::kRankDad}, kOneRow);
      exchange.load_feedback(saved);
      const NamedTensors state = exchange.gather_feedback();
      if (group.rank() == 0)
        EXPECT_LT((mean_left(state) - before).norm().item<double>(), 1e-12);
    });
  }
}

TEST(FactorFeedback, AMissingTensorIsAnError) {
  NamedTensors saved = saved_feedback(1, kOneRow);
  saved.pop_back();
  run_threads(1, [&](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad}, kOneRow);
    expect_throws<UsageError>([&] { exchange.load_feedback(saved); },
                              {"has 3 tensors; at least one is missing"});
  });
}

// Loading replaces the rests, also by none.
TEST(FactorFeedback, OtherEntriesAreIgnored) {
  const NamedTensors saved = saved_feedback(1, kOneRow);
  run_threads(1, [&](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad}, kOneRow);
    NamedTensors mixed{{"plan/route/a", at::ones({1})}};
    mixed.insert(mixed.end(), saved.begin(), saved.end());
    exchange.load_feedback(mixed);
    EXPECT_EQ(names_in(exchange.gather_feedback()), names_in(saved));
    exchange.load_feedback({{"plan/route/a", at::ones({1})}});
    EXPECT_EQ(names_in(exchange.gather_feedback()),
              std::vector<std::string>{"feedback/ranks"});
  });
}

}  // namespace
}  // namespace sheaf::parallel
