#include "sheaf/topo/cost.hpp"

#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

// a = 10 us, B = 1 GB/s, R = 4 GB/s, o = 2 us: 1000 bytes take 1 us to send
// and 0.25 us to add.
Flat flat(int ranks) { return {ranks, {10, 1}, 4, 2}; }
constexpr double kBytes = 12'000;

TEST(Cost, OneRankCostsNothing) {
  for (auto cost :
       {ring_all_reduce_us, halving_all_reduce_us, tree_all_reduce_us,
        ring_reduce_scatter_us, halving_reduce_scatter_us, ring_all_gather_us,
        halving_all_gather_us, tree_broadcast_us, ring_broadcast_us,
        tree_reduce_us, ring_reduce_us, linear_gather_us, tree_gather_us,
        pairwise_all_to_all_us})
    EXPECT_EQ(cost(flat(1), kBytes), 0);
  EXPECT_EQ(tree_barrier_us(flat(1)), 0);
}

TEST(Cost, RingAllReduce) {
  // 2*3*10 + 2*3/4*12 + 3/4*12/4
  EXPECT_DOUBLE_EQ(ring_all_reduce_us(flat(4), kBytes), 60 + 18 + 2.25);
  // 2*2*10 + 2*2/3*12 + 2/3*12/4
  EXPECT_DOUBLE_EQ(ring_all_reduce_us(flat(3), kBytes), 40 + 16 + 2);
}

TEST(Cost, HalvingAllReduce) {
  // 2*2*10 + 2*3/4*12 + 3/4*12/4
  EXPECT_DOUBLE_EQ(halving_all_reduce_us(flat(4), kBytes), 40 + 18 + 2.25);
  // As 4 ranks, and 2(10 + 12) + 12/4 for the fold.
  EXPECT_DOUBLE_EQ(halving_all_reduce_us(flat(5), kBytes), 60.25 + 2 * 22 + 3);
}

TEST(Cost, TreeAllReduce) {
  // 2*2*(10 + 12) + 2*12/4
  EXPECT_DOUBLE_EQ(tree_all_reduce_us(flat(4), kBytes), 88 + 6);
  EXPECT_DOUBLE_EQ(tree_all_reduce_us(flat(3), kBytes), 88 + 6);
  EXPECT_DOUBLE_EQ(tree_all_reduce_us(flat(5), kBytes), 132 + 9);
}

TEST(Cost, TheHalvesOfAllReduceAddUp) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    EXPECT_DOUBLE_EQ(ring_all_reduce_us(flat(ranks), kBytes),
                     ring_reduce_scatter_us(flat(ranks), kBytes) +
                         ring_all_gather_us(flat(ranks), kBytes));
    EXPECT_DOUBLE_EQ(halving_all_reduce_us(flat(ranks), kBytes),
                     halving_reduce_scatter_us(flat(ranks), kBytes) +
                         halving_all_gather_us(flat(ranks), kBytes));
  }
}

TEST(Cost, BroadcastAndReduce) {
  EXPECT_DOUBLE_EQ(tree_broadcast_us(flat(4), kBytes), 44);
  // (2 + 3)*10 + 2*3/4*12
  EXPECT_DOUBLE_EQ(ring_broadcast_us(flat(4), kBytes), 50 + 18);
  EXPECT_DOUBLE_EQ(tree_reduce_us(flat(4), kBytes), 44 + 6);
  EXPECT_DOUBLE_EQ(ring_reduce_us(flat(4), kBytes), 50 + 18 + 2.25);
}

TEST(Cost, GatherAllToAllAndBarrier) {
  EXPECT_DOUBLE_EQ(linear_gather_us(flat(4), kBytes), 10 + 4 + 9);
  EXPECT_DOUBLE_EQ(tree_gather_us(flat(4), kBytes), 20 + 9);
  EXPECT_DOUBLE_EQ(pairwise_all_to_all_us(flat(4), kBytes), 30 + 9);
  EXPECT_DOUBLE_EQ(tree_barrier_us(flat(5)), 30);
}

TEST(Cost, SmallMessagesLikeTreesAndLargeOnesRings) {
  EXPECT_LT(tree_all_reduce_us(flat(8), 8), ring_all_reduce_us(flat(8), 8));
  EXPECT_GT(tree_all_reduce_us(flat(8), 1e8), ring_all_reduce_us(flat(8), 1e8));
}

// The example of 4x3 in docs/explanation/costs.md: the slow tier carries 27 %
// less than in a ring over all 12 ranks.
TEST(Cost, TheTierBoundOf4x3) {
  const Link inner{1, 100}, outer{1, 1};
  const double bound = tier_bound_us(parse_dims("4x3"), {inner, outer}, 3e6);
  EXPECT_DOUBLE_EQ(bound, 2 * 2.0 / 3 * 3e6 / 1e3);
  const Flat ring{12, {0, 1}};
  EXPECT_NEAR(bound / ring_all_reduce_us(ring, 3e6), 1 - 0.27, 0.005);
}

TEST(Cost, TheTierBoundIsThatOfTheSlowestTier) {
  const Dims dims = parse_dims("4x3");
  const Link fast{0, 100}, slow{0, 1};
  EXPECT_DOUBLE_EQ(tier_bound_us(dims, {slow, fast}, 1e6), 1500);
  EXPECT_DOUBLE_EQ(tier_bound_us(parse_dims("1x1"), {slow, slow}, 1e6), 0);
  expect_throws<UsageError>([&] { tier_bound_us(dims, {slow}, 1e6); },
                            {"4x3", "2 tiers", "1 links"});
}

TEST(Cost, TheSharedMemoryBound) {
  EXPECT_DOUBLE_EQ(shared_bound_us(20, 2, 1e6), 200);
  EXPECT_DOUBLE_EQ(shared_bound_us(20, 1, 1e6), 0);
}

}  // namespace
}  // namespace sheaf::topo
