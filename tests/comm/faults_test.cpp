// Ranks that go away while others wait for them.

#include <gtest/gtest.h>

#include "sheaf/comm/point_to_point.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/trial.hpp"

namespace sheaf::comm {
namespace {

using test::Case;
using test::Ending;
using test::Hosts;
using test::Outcome;

constexpr int kDeserter = 1;

class Desertion : public testing::TestWithParam<Hosts> {
 protected:
  // All ranks do the operation again and again; one does not come back.
  std::vector<Outcome> desert(Operation operation,
                              const std::function<void()>& leave) {
    return test::outcomes(
        GetParam(),
        [&](const Group& group) {
          for (int i = 0; i < 100; ++i) {
            if (group.rank() == kDeserter && i == 3) return leave();
            Case test{.count = 5000};
            test.options.timeout = std::chrono::seconds(20);
            test::start(operation, group, test)();
          }
        },
        kDeserter);
  }

  void expect_named(Operation operation, const std::vector<Outcome>& all) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == kDeserter) continue;
      SCOPED_TRACE(testing::Message()
                   << name_of(operation) << " on rank " << rank);
      const Ending ending = all[rank].ending;
      EXPECT_TRUE(ending == Ending::kCommError || ending == Ending::kMismatch)
          << all[rank];
      EXPECT_TRUE(all[rank].names("rank 1")) << all[rank];
    }
  }

  const test::ExpectFailures failures_;
};

// The end of the program is a call that the others do not make.
TEST_P(Desertion, ByReturning) {
  for (const Operation operation : test::operations())
    if (operation != Operation::kSend)
      expect_named(operation, desert(operation, [] {}));
}

TEST_P(Desertion, ByAnError) {
  for (const Operation operation : test::operations()) {
    const auto all =
        desert(operation, [] { throw std::runtime_error("no more"); });
    expect_named(operation, all);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      EXPECT_TRUE(rank == kDeserter || all[rank].names("rank 1 has died"))
          << all[rank];
  }
}

// One rank of a broken group hears of it from another host or from its own.
TEST_P(Desertion, LeavesTheGroupsOfOthersAlone) {
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& world) {
        std::vector<int> rest;
        for (int rank = 0; rank < world.size(); ++rank)
          if (rank != kDeserter) rest.push_back(rank);
        const Group others = world.new_group(rest);
        if (world.rank() == kDeserter) throw std::runtime_error("no more");
        const auto outcome = test::outcome_of([&] { barrier(world); });
        EXPECT_EQ(outcome.ending, Ending::kCommError) << outcome;
        for (int i = 0; i < 10; ++i)
          test::start(Operation::kAllReduce, others, {.count = 5000})();
        const auto again = test::outcome_of([&] { barrier(world); });
        EXPECT_EQ(again.text, outcome.text);
      },
      kDeserter);
  for (const Outcome& outcome : all)
    EXPECT_EQ(outcome.ending, Ending::kWell) << outcome;
}

TEST_P(Desertion, IsHeardByThoseWhoWaitForAMessage) {
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& group) {
        if (group.rank() == kDeserter) throw std::runtime_error("no more");
        std::vector<float> data(10);
        recv(group, data, kDeserter);
      },
      kDeserter);
  expect_named(Operation::kReceive, all);
}

// What was sent before the end arrives.
TEST_P(Desertion, DoesNotTakeMessagesBack) {
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& group) {
        std::vector<int> small{7};
        std::vector<int> large(100000, 8);
        if (group.rank() == kDeserter) {
          const Work a = isend(group, small, 0);
          const Work b = isend(group, large, 0, {.tag = 1});
          while (!a.test() || !b.test()) {
          }
          throw std::runtime_error("no more");
        }
        if (group.rank() != 0) return;
        small = {0};
        large.assign(large.size(), 0);
        while (test::outcome_of([&] { barrier(group); }).ending ==
               Ending::kWell) {
        }
        EXPECT_EQ(recv(group, small, kDeserter), kDeserter);
        recv(group, large, kAnySource, {.tag = 1});
        EXPECT_EQ(small, std::vector<int>{7});
        EXPECT_EQ(large, std::vector<int>(100000, 8));
      },
      kDeserter);
  EXPECT_EQ(all[0].ending, Ending::kWell) << all[0];
}

TEST_P(Desertion, EndsAsynchronousWork) {
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& group) {
        if (group.rank() == kDeserter) throw std::runtime_error("no more");
        std::vector<float> data(5000);
        Work first = all_reduce(group, data, {.async = true});
        Work second = barrier(group, {.async = true});
        const auto outcome = test::outcome_of([&] { second.wait(); });
        EXPECT_EQ(outcome.ending, Ending::kCommError) << outcome;
        EXPECT_TRUE(first.test());
        EXPECT_TRUE(first.error());
        first.wait();
      },
      kDeserter);
  expect_named(Operation::kAllReduce, all);
}

INSTANTIATE_TEST_SUITE_P(Hosts, Desertion,
                         testing::Values(Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "a", "b", "b"},
                                         Hosts{"b", "a", "a", "b"}),
                         test::joined);

}  // namespace
}  // namespace sheaf::comm
