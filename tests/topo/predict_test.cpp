#include "sheaf/topo/predict.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sheaf::topo {
namespace {

const Machine kMachine;

double all_reduce_us(Algorithm algorithm, const char* dims, double bytes) {
  return predict_us(Collective::kAllReduce, algorithm, kMachine,
                    placement_of(parse_dims(dims)), bytes);
}

Algorithm best(const char* dims, double bytes) {
  return cheapest(Collective::kAllReduce, kMachine,
                  placement_of(parse_dims(dims)), bytes);
}

TEST(Predict, PlacementOfDimensions) {
  const Placement placement = placement_of(parse_dims("4x3x2"));
  EXPECT_EQ(placement.ranks, 24);
  EXPECT_EQ(placement.hosts, 6);
  EXPECT_EQ(placement.ranks_per_host, 4);
}

TEST(Predict, OneRankCostsNothing) {
  for (int i = 0; i < kAlgorithmCount; ++i)
    EXPECT_EQ(all_reduce_us(static_cast<Algorithm>(i), "1", 1e6), 0);
}

TEST(Predict, InsideAHostSharedMemoryWins) {
  for (const double bytes : {8.0, 1e3, 1e6, 64e6})
    EXPECT_EQ(best("4", bytes), Algorithm::kShared) << bytes;
}

TEST(Predict, SharedMemoryDoesNotReachOtherHosts) {
  EXPECT_TRUE(std::isinf(all_reduce_us(Algorithm::kShared, "4x3", 1e6)));
}

TEST(Predict, BetweenHostsSizeDecides) {
  EXPECT_EQ(best("2x5", 8), Algorithm::kTree);
  EXPECT_NE(best("1x8", 8), Algorithm::kRing);
  EXPECT_EQ(best("4x3", 64e6), Algorithm::kHierarchical);
  EXPECT_GT(all_reduce_us(Algorithm::kRing, "4x3", 64e6),
            1.25 * all_reduce_us(Algorithm::kHierarchical, "4x3", 64e6));
}

TEST(Predict, AutoCostsWhatTheCheapestDoes) {
  for (const char* dims : {"2", "4x3", "1x8", "2x2x2"}) {
    for (const double bytes : {8.0, 1e4, 1e7}) {
      const double cost = all_reduce_us(Algorithm::kAuto, dims, bytes);
      EXPECT_EQ(cost, all_reduce_us(best(dims, bytes), dims, bytes));
      for (int i = 1; i < kAlgorithmCount; ++i)
        EXPECT_LE(cost, all_reduce_us(static_cast<Algorithm>(i), dims, bytes));
    }
  }
}

TEST(Predict, EveryCollectiveHasAnAlgorithmEverywhere) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const char* dims : {"2", "3x2", "1x5"}) {
      const Placement placement = placement_of(parse_dims(dims));
      const double cost =
          predict_us(collective, Algorithm::kAuto, kMachine, placement, 1e5);
      EXPECT_TRUE(std::isfinite(cost)) << name_of(collective) << " " << dims;
      EXPECT_GT(cost, 0) << name_of(collective) << " " << dims;
    }
  }
}

TEST(Predict, NothingBeatsTheBound) {
  for (const char* dims : {"2", "16", "4x3", "1x8", "2x3x2", "2x2x2x2"}) {
    const Placement placement = placement_of(parse_dims(dims));
    for (const double bytes : {8.0, 1e4, 1e7, 1e9})
      EXPECT_GE(all_reduce_us(Algorithm::kAuto, dims, bytes),
                all_reduce_bound_us(kMachine, placement, bytes) * (1 - 1e-12))
          << dims << " " << bytes;
  }
}

TEST(Predict, TheBoundOfHostsCountsAllOfThem) {
  const double bound =
      all_reduce_bound_us(kMachine, placement_of(parse_dims("1x4x4")), 1e9);
  EXPECT_DOUBLE_EQ(bound, 2 * 15.0 / 16 * 1e6 / kMachine.network.bandwidth_gbs);
}

TEST(Predict, HostsMayHaveDifferentNumbersOfRanks) {
  const Placement uneven{7, 2, 4, {}};
  const double cost = predict_us(Collective::kAllReduce, Algorithm::kAuto,
                                 kMachine, uneven, 1e6);
  EXPECT_GE(cost, all_reduce_bound_us(kMachine, uneven, 1e6));
  EXPECT_TRUE(std::isfinite(cost));
}

}  // namespace
}  // namespace sheaf::topo
