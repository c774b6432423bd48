#include "sheaf/cli/bench/bench_shape.hpp"

#include <gtest/gtest.h>

namespace sheaf::cli {
namespace {

using comm::Operation;

Shape shape(Operation operation, std::size_t bytes, int rank, int ranks,
            bool in_place = true) {
  return make_shape({.operation = operation,
                     .in_place = in_place,
                     .bytes = bytes,
                     .rank = rank,
                     .ranks = ranks});
}

TEST(BenchShape, AllReduceUsesOneBufferOrTwo) {
  const Shape one = shape(Operation::kAllReduce, 4096, 0, 2);
  EXPECT_EQ(one.call.count, 1024u);
  EXPECT_EQ(one.input_at, one.output_at);
  EXPECT_EQ(one.slot_bytes(), 4096u);
  const Shape two =
      shape(Operation::kAllReduce, 4096, 0, 2, /*in_place=*/false);
  EXPECT_EQ(two.output_at, 1024u);
  EXPECT_EQ(two.slot_bytes(), 8192u);
}

TEST(BenchShape, BlocksAreRoundedUp) {
  const Shape one = shape(Operation::kAllGather, 8, 1, 3);
  EXPECT_EQ(one.call.count, 1u);
  EXPECT_EQ(one.size_bytes, 12u);
  EXPECT_EQ(one.output_count, 3u);
}

TEST(BenchShape, InPlaceBlocksLieAtTheirPlace) {
  const Shape gathered = shape(Operation::kAllGather, 48, 2, 3);
  EXPECT_EQ(gathered.input_at, 8u);
  EXPECT_EQ(gathered.output_at, 0u);
  const Shape scattered = shape(Operation::kReduceScatter, 48, 2, 3);
  EXPECT_EQ(scattered.input_at, 0u);
  EXPECT_EQ(scattered.output_at, 8u);
}

TEST(BenchShape, OnlyTheRootHasAllBlocks) {
  EXPECT_EQ(shape(Operation::kGather, 48, 0, 3).output_count, 12u);
  EXPECT_EQ(shape(Operation::kGather, 48, 1, 3).output_count, 0u);
  EXPECT_EQ(shape(Operation::kScatter, 48, 0, 3).input_count, 12u);
  EXPECT_EQ(shape(Operation::kScatter, 48, 1, 3).input_count, 0u);
}

TEST(BenchShape, AllToAllIsNeverInPlace) {
  EXPECT_FALSE(shape(Operation::kAllToAll, 48, 0, 3).call.in_place);
  EXPECT_FALSE(shape(Operation::kSend, 48, 0, 3).call.in_place);
}

TEST(BenchShape, ABarrierHasNoBytes) {
  EXPECT_EQ(shape(Operation::kBarrier, 48, 0, 3).size_bytes, 0u);
}

TEST(BenchShape, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllToAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kBroadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduce, 4), 1);
}

}  // namespace
}  // namespace sheaf::cli
