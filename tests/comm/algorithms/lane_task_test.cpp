// The tasks of all participants advance in turn, on one thread.

#include "sheaf/comm/algorithms/lane_task.hpp"

#include <gtest/gtest.h>

#include "tests/support/exact.hpp"

namespace sheaf::comm {
namespace {

constexpr Tag kLaneTag = 3;

// Advances until all tasks have ended or none can.
bool run_tasks(std::vector<LaneTask>& tasks) {
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (LaneTask& task : tasks)
      if (!task.has_ended() && task.advance()) has_moved = true;
  }
  for (const LaneTask& task : tasks)
    if (!task.has_ended()) return false;
  return true;
}

// Participant i is rank size-1-i of the transport.
std::vector<int> turned_peers(int size) {
  std::vector<int> peers;
  for (int i = 0; i < size; ++i) peers.push_back(size - 1 - i);
  return peers;
}

template <class Make>
void expect_exact_sums(int size, std::size_t count, const Reduction& reduction,
                       Make make) {
  SCOPED_TRACE(testing::Message() << size << " participants, " << count
                                  << " of " << name_of(reduction.dtype));
  const auto transports = make_thread_transports(size);
  const auto peers = turned_peers(size);
  std::vector<std::vector<std::byte>> data;
  std::vector<LaneTask> tasks;
  for (int me = 0; me < size; ++me)
    data.push_back(test::exact_data(reduction.dtype, reduction.op, me, count));
  for (int me = 0; me < size; ++me)
    tasks.emplace_back(*transports[static_cast<std::size_t>(
                           peers[static_cast<std::size_t>(me)])],
                       peers, kLaneTag, make(size, me, Range{0, count}),
                       data[static_cast<std::size_t>(me)].data(), reduction);
  ASSERT_TRUE(run_tasks(tasks));
  for (const auto& result : data)
    EXPECT_EQ(result,
              test::exact_result(reduction.dtype, reduction.op, size, count));
}

TEST(LaneTask, RunsEveryScheduleToTheExactResult) {
  for (const int size : {1, 2, 3, 5})
    for (const std::size_t count : {0, 1, 37}) {
      const Reduction sum{.dtype = DType::kI32};
      expect_exact_sums(size, count, sum, ring_schedule);
      expect_exact_sums(size, count, sum, halving_schedule);
      expect_exact_sums(size, count, sum, tree_schedule);
    }
}

TEST(LaneTask, DividesAveragesOnce) {
  for (const int size : {2, 4})
    expect_exact_sums(
        size, 37, {.dtype = DType::kF64, .op = ReduceOp::kAvg, .divisor = size},
        ring_schedule);
}

// 2048 + 1 + 1 in f16 is 2048 if it is rounded after each addition.
TEST(LaneTask, RoundsPartialSumsOfHalvesAtTheEndOnly) {
  const auto transports = make_thread_transports(3);
  const std::vector<int> peers{0, 1, 2};
  const float inputs[] = {2048, 1, 1};
  constexpr std::size_t kCount = 4;
  std::vector<std::vector<Half>> results(3, std::vector<Half>(kCount));
  std::vector<LaneTask> tasks;
  for (int me = 0; me < 3; ++me) {
    const auto at = static_cast<std::size_t>(me);
    auto partials = std::make_unique<float[]>(kCount);
    std::fill_n(partials.get(), kCount, inputs[at]);
    tasks.emplace_back(*transports[at], peers, kLaneTag,
                       ring_schedule(3, me, {0, kCount}),
                       reinterpret_cast<std::byte*>(results[at].data()),
                       Reduction{.dtype = DType::kF16}, std::move(partials));
  }
  ASSERT_TRUE(run_tasks(tasks));
  for (const auto& result : results)
    for (const Half value : result) EXPECT_EQ(to_float(value), 2050);
}

TEST(LaneTask, WaitsForItsPeer) {
  const auto transports = make_thread_transports(2);
  const std::vector<int> peers{0, 1};
  std::int32_t mine = 1;
  std::int32_t theirs = 2;
  const auto task_of = [&](int me, std::int32_t& data) {
    return LaneTask(*transports[static_cast<std::size_t>(me)], peers, kLaneTag,
                    tree_schedule(2, me, {0, 1}),
                    reinterpret_cast<std::byte*>(&data),
                    {.dtype = DType::kI32});
  };
  LaneTask first = task_of(0, mine);
  while (first.advance()) {
  }
  EXPECT_FALSE(first.has_ended());
  EXPECT_EQ(first.tier(), 0);
  LaneTask second = task_of(1, theirs);
  while (!first.has_ended() || !second.has_ended()) {
    first.advance();
    second.advance();
  }
  EXPECT_EQ(mine, 3);
  EXPECT_EQ(theirs, 3);
}

}  // namespace
}  // namespace sheaf::comm
