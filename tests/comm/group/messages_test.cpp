#include "sheaf/comm/group/messages.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Hosts;

class SmallGather : public testing::TestWithParam<Hosts> {};

TEST_P(SmallGather, GivesTheDataOfAllRanksInRankOrder) {
  run_threads(GetParam(), [](const Group& group) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{9}, kSmallBytes / 4}) {
      std::vector<std::int32_t> mine(count);
      std::iota(mine.begin(), mine.end(), 10000 * group.rank());
      const auto all = all_gather_small(group.core(), "a test", mine);
      ASSERT_EQ(all.size(), static_cast<std::size_t>(group.size()));
      for (int rank = 0; rank < group.size(); ++rank) {
        std::iota(mine.begin(), mine.end(), 10000 * rank);
        EXPECT_EQ(all[static_cast<std::size_t>(rank)], mine)
            << count << " elements of rank " << rank;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, SmallGather,
                         testing::Values(Hosts{"a"}, Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "b", "a"}),
                         test::joined);

TEST(SmallGatherNames, MustBeTheSameOnAllRanks) {
  const test::ExpectFailures failures;
  for (const Hosts& hosts : {Hosts{"a", "a"}, Hosts{"a", "b"}}) {
    const auto all = test::outcomes(hosts, [](const Group& group) {
      const char* name = group.rank() == 0 ? "one" : "other";
      all_gather_small(group.core(), name, std::vector<int>{1});
    });
    for (const auto& outcome : all)
      EXPECT_EQ(outcome.ending, test::Ending::kMismatch) << outcome;
  }
}

// Two messages to each rank, and nothing where there is nothing to send.
TEST(Messages, MatchInTheOrderPosted) {
  run_threads({"a", "b", "c"}, [](const Group& group) {
    const auto fingerprint =
        make_fingerprint(Operation::kAllGather, DType::kI32, 0, {});
    perform(group.core(), fingerprint, std::chrono::milliseconds(0), nullptr, 0,
            [&](CollectiveCall& call) {
              const int mine[] = {group.rank(), group.rank() + 100};
              std::vector<int> first(3, -1);
              std::vector<int> second(3, -1);
              Messages messages(call);
              for (int rank = 0; rank < 3; ++rank) {
                if (rank == group.rank()) continue;
                const auto at = static_cast<std::size_t>(rank);
                messages.receive(rank, &first[at], sizeof(int));
                messages.receive(rank, nullptr, 0);
                messages.receive(rank, &second[at], sizeof(int));
                messages.send(rank, &mine[0], sizeof(int));
                messages.send(rank, &mine[1], sizeof(int));
              }
              messages.wait();
              for (int rank = 0; rank < 3; ++rank) {
                const auto at = static_cast<std::size_t>(rank);
                const bool is_me = rank == group.rank();
                EXPECT_EQ(first[at], is_me ? -1 : rank);
                EXPECT_EQ(second[at], is_me ? -1 : rank + 100);
              }
            });
  });
}

}  // namespace
}  // namespace sheaf::comm
