#include "sheaf/cli/bench/bench_data.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;

constexpr Operation kOperations[] = {
    Operation::kBarrier,       Operation::kBroadcast, Operation::kReduce,
    Operation::kAllReduce,     Operation::kGather,    Operation::kAllGather,
    Operation::kScatter,       Operation::kAllToAll,  Operation::kSend,
    Operation::kReduceScatter,
};

comm::CollectiveOptions options_of(const Shape& shape) {
  comm::CollectiveOptions options;
  options.op = shape.call.op;
  options.root = shape.call.root;
  return options;
}

// Runs one call and returns the number of wrong elements on this rank.
std::size_t wrong_after_run(const comm::Group& group, const Shape& shape) {
  const Slots slots(group, shape.call.dtype, /*in_arena=*/true,
                    Slots::stride(shape));
  std::byte* slot = slots.at(shape, 0);
  prepare_slot(shape, slot);
  run_ours(group, shape, slot, options_of(shape));
  return count_wrong(shape, shape.output(slot));
}

TEST(BenchData, EveryOperationIsRight) {
  for (const Operation operation : kOperations)
    for (const bool in_place : {true, false})
      comm::run_threads(3, [&](const comm::Group& group) {
        const Shape shape = make_shape({.operation = operation,
                                        .root = 1,
                                        .in_place = in_place,
                                        .bytes = 20004,
                                        .rank = group.rank(),
                                        .ranks = group.size()});
        EXPECT_EQ(wrong_after_run(group, shape), 0u)
            << name_of(operation) << " in place: " << in_place;
      });
}

TEST(BenchData, EveryTypeAndReductionIsRight) {
  comm::run_threads(3, [](const comm::Group& group) {
    for (int type = 0; type < kDTypeCount; ++type)
      for (int op = 0; op < comm::kReduceOpCount; ++op) {
        const auto dtype = static_cast<DType>(type);
        const auto reduction = static_cast<comm::ReduceOp>(op);
        if (!comm::is_defined(reduction, dtype)) continue;
        const Shape shape = make_shape({.dtype = dtype,
                                        .op = reduction,
                                        .bytes = 5000,
                                        .rank = group.rank(),
                                        .ranks = group.size()});
        EXPECT_EQ(wrong_after_run(group, shape), 0u)
            << name_of(dtype) << " " << name_of(reduction);
      }
  });
}

// The result of another call, as from a library that confuses blocks.
TEST(BenchData, WrongElementsAreCounted) {
  const Shape shape = make_shape(
      {.operation = Operation::kBroadcast, .bytes = 40000, .ranks = 2});
  std::vector<float> result(shape.call.count);
  fill_exact(shape.call, /*rank=*/0, 0, result.size(), result.data());
  EXPECT_EQ(count_wrong(shape, result.data()), 0u);
  result[0] += 1;
  result[5000] += 1;
  result.back() += 1;
  EXPECT_EQ(count_wrong(shape, result.data()), 3u);
}

TEST(BenchData, DataOfOtherRanksOrPlacesIsWrong) {
  const Shape shape = make_shape(
      {.operation = Operation::kBroadcast, .bytes = 4000, .ranks = 2});
  std::vector<float> result(shape.call.count);
  fill_exact(shape.call, /*rank=*/1, 0, result.size(), result.data());
  EXPECT_GT(count_wrong(shape, result.data()), result.size() / 2);
  for (const std::size_t shift : {1u, 4u, 64u, 1000u}) {
    fill_exact(shape.call, /*rank=*/0, shift, result.size(), result.data());
    EXPECT_GT(count_wrong(shape, result.data()), result.size() / 4) << shift;
  }
}

TEST(BenchData, AnUntouchedOutputIsWrong) {
  comm::run_threads(2, [](const comm::Group& group) {
    const Shape shape = make_shape(
        {.bytes = 4000, .rank = group.rank(), .ranks = group.size()});
    std::vector<float> slot(shape.call.count);
    prepare_slot(shape, reinterpret_cast<std::byte*>(slot.data()));
    EXPECT_GT(count_wrong(shape, slot.data()), 0u);
  });
}

}  // namespace
}  // namespace sheaf::cli
