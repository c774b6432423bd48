#include <gtest/gtest.h>

#include "sheaf/cli/bench/bench_shape.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;

TEST(BenchBound, OneHostIsBoundByItsMemory) {
  topo::Machine machine;
  machine.shm_memory_gbs = 10;
  const topo::Placement placement{
      .ranks = 4, .hosts = 1, .ranks_per_host = 4, .dims = {}};
  // 2PS/M: 8 MB at 10 GB/s.
  EXPECT_DOUBLE_EQ(bound_us(Operation::kAllReduce, machine, placement, 1e6),
                   800);
  EXPECT_DOUBLE_EQ(bound_us(Operation::kBroadcast, machine, placement, 1e6),
                   400);
  EXPECT_DOUBLE_EQ(bound_us(Operation::kBarrier, machine, placement, 0), 0);
}

TEST(BenchBound, SeveralHostsAreBoundByTheirNetwork) {
  topo::Machine machine;
  machine.shm_memory_gbs = 1000;
  machine.network.bandwidth_gbs = 0.125;
  const topo::Placement placement{
      .ranks = 4, .hosts = 2, .ranks_per_host = 2, .dims = {}};
  const auto bound = [&](Operation operation) {
    return bound_us(operation, machine, placement, 1e6);
  };
  EXPECT_DOUBLE_EQ(bound(Operation::kAllReduce), 8000);  // 2(q-1)/q S/G
  EXPECT_DOUBLE_EQ(bound(Operation::kBroadcast), 8000);
  EXPECT_DOUBLE_EQ(bound(Operation::kAllGather), 4000);
  EXPECT_DOUBLE_EQ(bound(Operation::kAllToAll), 8000);
}

// Two of the four ranks share the memory of a host, which takes 8 ms per 1 MB.
TEST(BenchBound, SeveralHostsMayBeBoundByTheirMemory) {
  topo::Machine machine;
  machine.shm_memory_gbs = 0.125;
  machine.network.bandwidth_gbs = 1000;
  const topo::Placement placement{
      .ranks = 4, .hosts = 2, .ranks_per_host = 2, .dims = {}};
  const auto bound = [&](Operation operation) {
    return bound_us(operation, machine, placement, 1e6);
  };
  EXPECT_DOUBLE_EQ(bound(Operation::kBroadcast), 16000);
  EXPECT_DOUBLE_EQ(bound(Operation::kReduce), 24000);
  EXPECT_DOUBLE_EQ(bound(Operation::kReduceScatter), 20000);
  EXPECT_DOUBLE_EQ(bound(Operation::kAllGather), 16000);
  EXPECT_DOUBLE_EQ(bound(Operation::kAllToAll), 24000);
  EXPECT_DOUBLE_EQ(bound(Operation::kGather), 12000);
  EXPECT_DOUBLE_EQ(bound(Operation::kScatter), 12000);
  EXPECT_DOUBLE_EQ(bound(Operation::kSend), 32000);
}

TEST(BenchBound, OneRankMovesNothing) {
  const topo::Placement placement{
      .ranks = 1, .hosts = 1, .ranks_per_host = 1, .dims = {}};
  EXPECT_EQ(bound_us(Operation::kBroadcast, {}, placement, 1e6), 0);
}

}  // namespace
}  // namespace sheaf::cli
