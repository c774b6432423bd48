#include <gtest/gtest.h>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/group/go_on.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Hosts;

// Rank r sends r + to elements to rank `to`, each of which names both.
std::vector<std::int32_t> letters(int from, int to) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(from + to),
                                   100 * from + to);
}

void append(std::vector<std::int32_t>& all,
            const std::vector<std::int32_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

class AllToAll : public testing::TestWithParam<Hosts> {};

TEST_P(AllToAll, TransposesTheTableOfUnequalBlocks) {
  run_threads(GetParam(), [](const Group& group) {
    std::vector<std::int32_t> input;
    std::vector<std::int32_t> expected;
    std::vector<std::size_t> counts;  // the same in both directions
    for (int rank = 0; rank < group.size(); ++rank) {
      append(input, letters(group.rank(), rank));
      append(expected, letters(rank, group.rank()));
      counts.push_back(letters(group.rank(), rank).size());
    }
    std::vector<std::int32_t> output(expected.size());
    all_to_all(group, input, output, {}, counts, counts).wait();
    EXPECT_EQ(output, expected);
  });
}

// Blocks that end in the middle of a window of the staging space.
TEST_P(AllToAll, TransposesBlocksLargerThanAWindow) {
  run_threads(GetParam(), [](const Group& group) {
    constexpr std::size_t kBlock = 70001;
    const auto ranks = static_cast<std::size_t>(group.size());
    std::vector<std::int32_t> input(kBlock * ranks);
    std::vector<std::int32_t> expected(kBlock * ranks);
    for (std::size_t i = 0; i < input.size(); ++i) {
      const auto other = static_cast<int>(i / kBlock);
      const auto element = static_cast<std::int32_t>(i % kBlock);
      input[i] = 1000 * element + 10 * group.rank() + other;
      expected[i] = 1000 * element + 10 * other + group.rank();
    }
    std::vector<std::int32_t> output(input.size());
    all_to_all(group, input, output).wait();
    EXPECT_TRUE(output == expected);
  });
}

TEST_P(AllToAll, OfNothingMovesNothing) {
  run_threads(GetParam(), [](const Group& group) {
    std::vector<std::int32_t> none;
    std::vector<std::int32_t> output;
    all_to_all(group, none, output).wait();
    EXPECT_TRUE(output.empty());
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, AllToAll,
                         testing::Values(Hosts{"a"}, Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "b", "a"}),
                         test::joined);

TEST(MismatchOfAllToAll, NamesBothCounts) {
  const test::ExpectFailures failures;
  for (const Hosts& hosts : {Hosts{"a", "a", "a"}, Hosts{"a", "b", "c"}}) {
    const auto all = test::outcomes(hosts, [](const Group& group) {
      std::vector<std::size_t> send(3, 4);
      std::vector<std::size_t> receive(3, 4);
      if (group.rank() == 1) send[0] = 6;  // rank 0 expects 4
      const std::vector<float> input(send[0] + send[1] + send[2]);
      std::vector<float> output(12);
      all_to_all(group, input, output, {}, send, receive).wait();
      test::go_on(group);
    });
    for (const test::Outcome& outcome : all)
      EXPECT_NE(outcome.ending, test::Ending::kWell) << outcome;
    EXPECT_TRUE(all[0].names("24 bytes") && all[0].names("16")) << all[0];
  }
}

}  // namespace
}  // namespace sheaf::comm
