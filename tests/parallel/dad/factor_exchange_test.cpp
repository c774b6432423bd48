#include "sheaf/parallel/dad/factor_exchange.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/comm/group/world.hpp"
#include "tests/parallel/dad/factor_parts.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

const BlockKey kExchanged{0, -1, whole_weight(6, 5)};

FactorParcel parcel_with(const FactorPart& part) {
  FactorParcel parcel;
  parcel.parts.push_back(part);
  return parcel;
}

at::Tensor product_of_part(const FactorPart& part) {
  return part.factors.deltas.t().mm(part.factors.inputs);
}

TEST(FactorExchange, HasRoutesInTermsOfAPlan) {
  EXPECT_EQ(exchange_of(Route::kGradient), plan::Route::kGradients);
  EXPECT_EQ(exchange_of(Route::kDad), plan::Route::kDad);
  EXPECT_EQ(exchange_of(Route::kEdad), plan::Route::kEdad);
  EXPECT_EQ(exchange_of(Route::kRankDad), plan::Route::kRankDad);
}

// Rank r has r rows. Byte counts are those sent, and those received from
// others.
TEST(FactorExchange, PartsOfAllRanksArriveByRank) {
  for (const Where where : {Where::kAllGather, Where::kStar})
    run_threads(3, [&](const Group& group) {
      FactorExchange exchange(group, {Route::kDad}, {.where = where});
      const int rank = group.rank();
      FactorParcel mine;
      mine.place = {7, 2};
      mine.remainders = Numbers(1, rank);
      if (rank > 0)
        mine.parts.push_back(factor_part(kExchanged,
                                         at::full({rank, 6}, 1.0 * rank),
                                         at::full({rank, 5}, 10.0 * rank)));
      const auto parcels = exchange.share(mine);
      ASSERT_EQ(parcels.size(), 3u);
      if (rank > 0) EXPECT_EQ(mine.parts[0].bytes, 4 * rank * (6 + 5));
      for (int r = 0; r < 3; ++r) {
        const FactorParcel& one = parcels[static_cast<std::size_t>(r)];
        EXPECT_TRUE(one.place == mine.place);
        EXPECT_EQ(one.remainders, Numbers(1, r));
        ASSERT_EQ(one.parts.size(), r > 0 ? 1u : 0u);
        if (r == 0) continue;
        EXPECT_EQ(one.parts[0].bytes, r == rank ? 0 : 4 * r * (6 + 5));
        EXPECT_TRUE(one.parts[0].factors.inputs.eq(r).all().item<bool>());
        EXPECT_TRUE(one.parts[0].factors.deltas.eq(10 * r).all().item<bool>());
        EXPECT_EQ(one.parts[0].factors.inputs.size(0), r);
      }
    });
}

TEST(FactorExchange, LowRankFactorsComeWithTheSumOfTheDeltas) {
  run_threads(2, [](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad, Route::kGradient},
                            {.low_rank = {.rank = 1}});
    BlockKey block = kExchanged;
    block.bias = 1;
    FactorParcel mine = parcel_with(factor_part(
        block, at::ones({4, 6}), at::full({4, 5}, 2.0 + group.rank())));
    const auto parcels = exchange.share(mine);
    for (int r = 0; r < 2; ++r) {
      const FactorPart& part = parcels[static_cast<std::size_t>(r)].parts[0];
      EXPECT_EQ(part.factors.inputs.size(0), 1);
      // All rows are equal, so one row represents them up to rounding.
      EXPECT_TRUE(at::allclose(product_of_part(part),
                               at::full({5, 6}, 4.0 * (2 + r)), 1e-5));
      EXPECT_TRUE(part.bias_sum.equal(at::full({5}, 4.0 * (2 + r))));
    }
  });
}

// The input of a lookup holds indices.
TEST(FactorExchange, LookupsAreSentAsTheyAre) {
  run_threads(2, [](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad},
                            {.low_rank = {.rank = 1}});
    const at::Tensor indices = at::tensor({3, 0, 3, 9}, at::kLong).view({4, 1});
    const at::Tensor deltas = at::arange(20, at::kFloat).view({4, 5});
    FactorParcel mine =
        parcel_with(factor_part({0, -1, whole_table(10, 5)}, indices, deltas));
    for (const FactorParcel& parcel : exchange.share(mine)) {
      EXPECT_TRUE(parcel.parts[0].factors.inputs.equal(indices));
      EXPECT_TRUE(parcel.parts[0].factors.deltas.equal(deltas));
    }
  });
}

// Weight 1 is not low-rank and stays in the parcels of its ranks.
TEST(FactorExchange, TwoWayPartsAreTheSumOfAllRanks) {
  run_threads(3, [](const Group& group) {
    FactorExchange exchange(
        group, {Route::kRankDad, Route::kDad},
        {.where = Where::kStar, .low_rank = {.rank = 1}, .is_two_way = true});
    FactorParcel mine;
    BlockKey block = kExchanged;
    block.bias = 2;
    mine.parts.push_back(factor_part(block, at::ones({4, 6}),
                                     at::full({4, 5}, 1.0 + group.rank())));
    block = {1, -1, whole_weight(6, 5)};
    mine.parts.push_back(factor_part(block, at::ones({1, 6}),
                                     at::full({1, 5}, 1.0 * group.rank())));
    const auto parcels = exchange.share(mine);
    ASSERT_EQ(parcels.size(), 3u);
    for (std::size_t r = 0; r < 3; ++r) {
      ASSERT_EQ(parcels[r].parts.size(), r == 0 ? 2u : 1u);
      EXPECT_EQ(parcels[r].parts[0].block.weight, 1);
      EXPECT_TRUE(parcels[r].parts[0].factors.deltas.equal(
          at::full({1, 5}, static_cast<double>(r))));
    }
    const FactorPart& sum = parcels[0].parts[1];
    EXPECT_EQ(sum.factors.inputs.size(0), 1);
    EXPECT_TRUE(
        at::allclose(product_of_part(sum), at::full({5, 6}, 24.0), 1e-5));
    EXPECT_TRUE(sum.bias_sum.equal(at::full({5}, 24.0)));
    check_same_bits(group, {{"inputs", sum.factors.inputs},
                            {"deltas", sum.factors.deltas}});
  });
}

TEST(FactorExchange, RanksDetectDifferentMatrixProducts) {
  for (const bool is_alike : {true, false})
    for (const bool is_two_way : {true, false})
      run_threads(3, [&](const Group& group) {
        use_threads(!is_alike && group.rank() == 2 ? 2 : 1);
        FactorExchange exchange(
            group, {Route::kRankDad},
            {.where = is_two_way ? Where::kStar : Where::kAllGather,
             .is_two_way = is_two_way});
        exchange.begin_pass(at::kCPU);
        FactorParcel parcel;
        parcel.parts.push_back(
            factor_part(kExchanged, at::ones({4, 6}), at::ones({4, 5})));
        int parts = 0;
        for (const FactorParcel& got : exchange.share(parcel))
          for (const FactorPart& one : got.parts) {
            EXPECT_EQ(one.needs_portable, !is_alike);
            ++parts;
          }
        EXPECT_EQ(parts, is_two_way ? 1 : 3);
      });
  at::set_num_threads(1);
}

// A factor whose rest is not zero.
FactorPart part_with_rest(const BlockKey& block, int seed) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return factor_part(block, at::randn({4, 6}, generator),
                     at::randn({4, 5}, generator));
}

// The number of entries without any rest is one: the number of ranks.
std::size_t rests_of(const FactorExchange& exchange) {
  return (exchange.gather_feedback().size() - 1) / 3;
}

TEST(FactorExchange, ARestCountsFromTheEndOfItsPass) {
  run_threads(1, [](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad},
                            {.low_rank = {.rank = 1}});
    FactorParcel mine = parcel_with(part_with_rest(kExchanged, 1));
    exchange.share(mine);
    EXPECT_EQ(rests_of(exchange), 0u);
    exchange.forget_pass();
    exchange.end_pass();
    EXPECT_EQ(rests_of(exchange), 0u) << "the pass was forgotten";
    mine = parcel_with(part_with_rest(kExchanged, 1));
    exchange.share(mine);
    exchange.end_pass();
    EXPECT_EQ(rests_of(exchange), 1u);
  });
}

// Also if the numbers belong to another weight: no rank takes the step.
TEST(FactorExchange, APassThatIsNotFiniteLeavesTheRest) {
  run_threads(1, [](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad, Route::kDad},
                            {.low_rank = {.rank = 1}});
    FactorParcel mine = parcel_with(part_with_rest(kExchanged, 1));
    exchange.share(mine);
    exchange.end_pass();
    const NamedTensors before = exchange.gather_feedback();
    mine = parcel_with(part_with_rest(kExchanged, 2));
    mine.parts.push_back(factor_part({1, -1, whole_weight(2, 2)},
                                     at::full({1, 2}, NAN), at::ones({1, 2})));
    exchange.share(mine);
    exchange.end_pass();
    const NamedTensors after = exchange.gather_feedback();
    ASSERT_EQ(after.size(), 4u);
    EXPECT_TRUE(after[3].second.equal(before[3].second));
    // The next pass is finite again.
    mine = parcel_with(part_with_rest(kExchanged, 2));
    exchange.share(mine);
    exchange.end_pass();
    EXPECT_FALSE(exchange.gather_feedback()[3].second.equal(before[3].second));
  });
}

TEST(FactorExchange, WithoutFeedbackNothingIsKept) {
  for (const LowRankOptions& options :
       {LowRankOptions{.rank = 1, .feedback_rows = 0},
        LowRankOptions{.rank = 1, .power_iterations = 3}})
    run_threads(1, [&](const Group& group) {
      FactorExchange exchange(group, {Route::kRankDad}, {.low_rank = options});
      FactorParcel mine = parcel_with(part_with_rest(kExchanged, 1));
      const auto parcels = exchange.share(mine);
      EXPECT_EQ(parcels[0].parts[0].factors.inputs.size(0), 1);
      exchange.end_pass();
      EXPECT_EQ(rests_of(exchange), 0u);
    });
}

}  // namespace
}  // namespace sheaf::parallel
