#include <algorithm>
#include <cmath>
#include <tuple>

#include "sheaf/topo/cost.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

Machine machine() {
  Machine machine;
  machine.shm = {1, 10};
  machine.shm_memory_gbs = 1e6;
  machine.network = {20, 1};
  return machine;
}

TEST(CostTiers, LinksAreEgressesOfGroups) {
  const auto tiers = tiers_of(machine(), parse_dims("4x3x2"));
  ASSERT_EQ(tiers.size(), 3u);
  EXPECT_EQ(tiers[0].link, (Link{1, 10}));
  EXPECT_EQ(tiers[1].link, (Link{20, 1}));
  EXPECT_EQ(tiers[2].link, (Link{20, 3}));  // a rack of three hosts
  EXPECT_NE(tiers[0].fabric, tiers[1].fabric);
  EXPECT_EQ(tiers[1].fabric, tiers[2].fabric);
}

TEST(CostTiers, MemoryLimitsTheInnerTier) {
  Machine narrow = machine();
  narrow.shm_memory_gbs = 16;
  const auto tiers = tiers_of(narrow, parse_dims("4"));
  Tier without_latency = tiers[0];
  without_latency.link.latency_us = 0;
  EXPECT_DOUBLE_EQ(tiers_sum_us({without_latency}, 1e6),
                   shared_bound_us(16, 4, 1e6));
}

TEST(CostTiers, OneAfterTheOtherIsTheSum) {
  const auto tiers = tiers_of(machine(), parse_dims("4x3"));
  // 2*3*1 + 2*3/4*120/10, 2*2*20 + 2*2/3*120/1; adds 3/4*120 and 2/3*120/4 at
  // 5 GB/s.
  EXPECT_DOUBLE_EQ(tiers_sum_us(tiers, 120e3, 5),
                   (6 + 18) + (80 + 160) + (90 + 20) / 5.0);
}

TEST(CostTiers, BytesAreThoseOfOneRingWhereTheTiersAreAlike) {
  Machine even = machine();
  even.shm = even.network = {0, 1};
  const auto tiers = tiers_of(even, parse_dims("1x4x3x2"));
  EXPECT_DOUBLE_EQ(tiers_sum_us(tiers, 1e6),
                   ring_all_reduce_us({24, {0, 1}}, 1e6));
}

TEST(CostTiers, OneSegmentIsNoPipeline) {
  for (const char* text : {"4", "4x3", "2x3x2", "2x2x2x2"}) {
    const auto tiers = tiers_of(machine(), parse_dims(text));
    EXPECT_DOUBLE_EQ(tiers_pipelined_us(tiers, 1e6, 1, 5),
                     tiers_sum_us(tiers, 1e6, 5))
        << text;
  }
}

TEST(CostTiers, APipelineTakesTheSlowestTierAndTheFill) {
  const std::vector<Tier> tiers{{2, {0, 4}, 0}, {2, {0, 1}, 1}};
  // Tiers of 250 and 1000 us in 10 segments: 125 to fill, then 9 * 100.
  EXPECT_DOUBLE_EQ(tiers_sum_us(tiers, 1e6), 1250);
  EXPECT_DOUBLE_EQ(tiers_pipelined_us(tiers, 1e6, 10), 125 + 900);
}

TEST(CostTiers, TiersOnTheSameWiresDoNotOverlap) {
  const std::vector<Tier> tiers{{2, {0, 4}, 0}, {2, {0, 1}, 0}};
  EXPECT_DOUBLE_EQ(tiers_pipelined_us(tiers, 1e6, 10), 1250);
}

TEST(CostTiers, ManySegmentsComeNearTheBound) {
  const Dims dims = parse_dims("4x3");
  Machine still = machine();
  still.shm.latency_us = still.network.latency_us = 0;
  const auto tiers = tiers_of(still, dims);
  const double bound = tier_bound_us(dims, {tiers[0].link, tiers[1].link}, 1e8);
  const double pipelined = tiers_pipelined_us(tiers, 1e8, 1000);
  EXPECT_GE(pipelined, bound);
  EXPECT_LT(pipelined, 1.01 * bound);
}

TEST(CostTiers, APipelineNeedsASegment) {
  expect_throws<UsageError>([] { tiers_pipelined_us({}, 1, 0); },
                            {"0 segments"});
}

TEST(CostShared, AllReduceIsBoundByCoreOrMemory) {
  Machine narrow = machine();
  narrow.shm = {1, 8};
  narrow.reduce_gbs = 8;
  narrow.shm_memory_gbs = 16;
  // Four ranks: two barriers of two rounds; memory 2*4*80/16 = 40 us against
  // 80/8 + 80/8 = 20 us of a core.
  EXPECT_DOUBLE_EQ(shared_us(Collective::kAllReduce, narrow, 4, 80e3), 44);
  narrow.shm_memory_gbs = 1000;
  EXPECT_DOUBLE_EQ(shared_us(Collective::kAllReduce, narrow, 4, 80e3), 24);
}

TEST(CostShared, BuffersOutsideTheArenaMoveMore) {
  Machine narrow = machine();
  narrow.shm_memory_gbs = 16;
  const double arena = shared_us(Collective::kAllReduce, narrow, 4, 80e3);
  const double plain =
      shared_us(Collective::kAllReduce, narrow, 4, 80e3, false);
  EXPECT_DOUBLE_EQ((plain - 4) / (arena - 4), 2.5);  // 5PS against 2PS
}

// The table in cost.hpp for P = 4 ranks and S = 80 kB, where the host's memory
// (1 GB/s) is the bound: traffic in units of S, without and with the copies
// into the arena.
TEST(CostShared, TrafficIsThatOfTheTable) {
  Machine slow = machine();
  slow.shm = {0, 1000};
  slow.reduce_gbs = 1000;
  slow.shm_memory_gbs = 1;
  const auto traffic = [&](Collective collective, bool is_in_arena) {
    return shared_us(collective, slow, 4, 80e3, is_in_arena) / 80;
  };
  using enum Collective;
  for (const auto& [collective, in_arena, outside] :
       {std::tuple(kBarrier, 0.0, 0.0), std::tuple(kAllReduce, 8.0, 20.0),
        std::tuple(kReduce, 5.0, 13.0), std::tuple(kReduceScatter, 5.0, 13.0),
        std::tuple(kBroadcast, 6.0, 8.0), std::tuple(kAllGather, 6.0, 8.0),
        std::tuple(kAllToAll, 6.0, 14.0), std::tuple(kGather, 1.5, 3.5),
        std::tuple(kScatter, 1.5, 3.5)}) {
    EXPECT_DOUBLE_EQ(traffic(collective, true), in_arena)
        << name_of(collective);
    EXPECT_DOUBLE_EQ(traffic(collective, false), outside)
        << name_of(collective);
  }
}

// The same where a core is the bound: its work in units of S.
TEST(CostShared, WorkOfARankIsThatOfTheTable) {
  Machine slow = machine();
  slow.shm = {0, 1};
  slow.reduce_gbs = 0.5;
  slow.shm_memory_gbs = 1e6;
  const auto work = [&](Collective collective, bool is_in_arena) {
    return shared_us(collective, slow, 4, 80e3, is_in_arena) / 80;
  };
  using enum Collective;
  for (const auto& [collective, in_arena, outside] :
       {std::tuple(kAllReduce, 3.0, 5.0), std::tuple(kReduce, 2.25, 3.25),
        std::tuple(kReduceScatter, 2.25, 3.25),
        std::tuple(kBroadcast, 1.0, 2.0), std::tuple(kAllGather, 0.75, 1.0),
        std::tuple(kAllToAll, 0.75, 1.75), std::tuple(kGather, 0.25, 0.5),
        std::tuple(kScatter, 0.25, 1.25)}) {
    EXPECT_DOUBLE_EQ(work(collective, true), in_arena) << name_of(collective);
    EXPECT_DOUBLE_EQ(work(collective, false), outside) << name_of(collective);
  }
}

TEST(CostShared, EveryCollectiveHasACost) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    const double small = shared_us(collective, machine(), 4, 1e3);
    EXPECT_GT(small, 0) << name_of(collective);
    EXPECT_TRUE(std::isfinite(small));
    EXPECT_EQ(shared_us(collective, machine(), 1, 1e6), 0);
    if (collective == Collective::kBarrier) continue;
    EXPECT_GT(shared_us(collective, machine(), 4, 1e6), small);
    EXPECT_GT(shared_us(collective, machine(), 4, 1e6, false),
              shared_us(collective, machine(), 4, 1e6))
        << name_of(collective);
  }
}

}  // namespace
}  // namespace sheaf::topo
