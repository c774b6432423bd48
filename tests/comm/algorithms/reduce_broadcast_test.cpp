#include <gtest/gtest.h>

#include <atomic>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::exact_data;
using test::Hosts;

class ReduceBroadcast : public testing::TestWithParam<Hosts> {};

// Below and above the small path, and more than one segment.
constexpr std::size_t kRootedCounts[] = {0, 1, 1023, 5001, 300001};

TEST_P(ReduceBroadcast, TheRootsElementsReachAllRanks) {
  run_threads(GetParam(), [](const Group& group) {
    for (int root = 0; root < group.size(); ++root)
      for (const std::size_t count : kRootedCounts) {
        auto data =
            exact_data(DType::kI32, ReduceOp::kSum, group.rank(), count);
        broadcast(group, Buffer(data.data(), count, DType::kI32),
                  {.root = root})
            .wait();
        EXPECT_TRUE(data ==
                    exact_data(DType::kI32, ReduceOp::kSum, root, count))
            << count << " elements of root " << root;
      }
  });
}

TEST_P(ReduceBroadcast, OnlyTheRootGetsTheSum) {
  run_threads(GetParam(), [](const Group& group) {
    for (int root = 0; root < group.size(); ++root)
      for (const std::size_t count : kRootedCounts) {
        const auto input =
            exact_data(DType::kI32, ReduceOp::kSum, group.rank(), count);
        std::vector<std::byte> output(input.size(), std::byte{0x5a});
        const auto untouched = output;
        const auto before = input;
        reduce(group, ConstBuffer(input.data(), count, DType::kI32),
               Buffer(output.data(), count, DType::kI32), {.root = root})
            .wait();
        EXPECT_TRUE(output ==
                    (group.rank() == root
                         ? test::exact_result(DType::kI32, ReduceOp::kSum,
                                              group.size(), count)
                         : untouched))
            << count << " elements for root " << root;
        EXPECT_TRUE(input == before);
      }
  });
}

// No rank passes the barrier before all have entered it.
TEST_P(ReduceBroadcast, ABarrierWaitsForAllRanks) {
  std::atomic<int> arrived{0};
  run_threads(GetParam(), [&](const Group& group) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      barrier(group).wait();
      EXPECT_GE(arrived, round * group.size());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, ReduceBroadcast,
                         testing::Values(Hosts{"a"}, Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "b", "a"}),
                         test::joined);

}  // namespace
}  // namespace sheaf::comm
