// Ranks that end or die while others wait for them.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <tuple>

#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/trial.hpp"

namespace sheaf::comm {
namespace {

using test::Case;
using test::Ending;
using test::Hosts;
using test::Outcome;

constexpr int kDeserter = 1;
const char* const kHasEnded = "rank 1 has exited normally while";

class Desertion : public testing::TestWithParam<Hosts> {
 protected:
  // All ranks repeat the operation; one of them stops.
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

TEST_P(Desertion, ByReturning) {
  for (const Operation operation : test::operations()) {
    if (operation == Operation::kSend) continue;
    const auto all = desert(operation, [] {});
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == kDeserter) continue;
      SCOPED_TRACE(testing::Message()
                   << name_of(operation) << " on rank " << rank);
      EXPECT_EQ(all[rank].ending, Ending::kCommError) << all[rank];
      EXPECT_TRUE(all[rank].names(kHasEnded)) << all[rank];
    }
  }
}

// The group of a bucket exchange is not the world, where the end is a call.
TEST_P(Desertion, OfASmallerGroupByReturning) {
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& world) {
        const Group group = world.split(0, (world.rank() + 1) % world.size());
        Case test{.count = 5000};
        test.options.timeout = std::chrono::minutes(10);
        test.options.async = true;
        test::start(Operation::kAllReduce, group, test)();
        if (world.rank() == kDeserter) return;
        test::start(Operation::kAllReduce, group, test)();
      },
      kDeserter);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank == kDeserter) continue;
    EXPECT_EQ(all[rank].ending, Ending::kCommError) << all[rank];
    EXPECT_TRUE(
        all[rank].names("(1 in the world) has exited "
                        "normally while"))
        << all[rank];
    EXPECT_TRUE(all[rank].names("waits for it in all_reduce #2")) << all[rank];
    EXPECT_TRUE(all[rank].names("see join")) << all[rank];
  }
}

TEST_P(Desertion, WhileOthersWaitForAMessage) {
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& group) {
        if (group.rank() == kDeserter) return;
        std::vector<float> data(100000);
        const MessageOptions options{.timeout = std::chrono::minutes(10)};
        if (group.rank() == 0)
          recv(group, data, kDeserter, options);
        else
          send(group, data, kDeserter, options);
      },
      kDeserter);
  EXPECT_EQ(all[0].ending, Ending::kCommError) << all[0];
  EXPECT_TRUE(all[0].names(kHasEnded)) << all[0];
  EXPECT_TRUE(all[0].names("waits for it in recv")) << all[0];
  // On some transports the message has already been sent.
  for (std::size_t rank = 2; rank < all.size(); ++rank)
    if (all[rank].ending != Ending::kWell) {
      EXPECT_TRUE(all[rank].names("waits for it in send")) << all[rank];
    }
}

TEST_P(Desertion, OfAllWhileOneWaitsForAnyMessage) {
  const auto all = test::outcomes(
      {GetParam()[0], GetParam()[1]},
      [&](const Group& group) {
        if (group.rank() == kDeserter) return;
        std::vector<float> data(10);
        recv(group, data, kAnySource, {.timeout = std::chrono::minutes(10)});
      },
      kDeserter);
  EXPECT_TRUE(all[0].names(kHasEnded)) << all[0];
}

// Lets the deserter end first, if it can: within a host it cannot complete an
// operation before all ranks have arrived.
void await_end(const Group& world) {
  for (int i = 0; i < 300; ++i) {
    if (world.core().runtime().end_of(kDeserter).has_ended()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// A rank that has done its part may end while others wait for a third rank.
TEST_P(Desertion, AfterItsPartIsNoError) {
  const std::vector<int> small{7};
  const std::vector<int> large(100000, 8);
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& world) {
        const Group group = world.split(0);
        std::vector<int> sums(5000, 1);
        if (world.rank() + 1 == world.size()) await_end(world);
        reduce(group, sums, sums, {.root = 0}).wait();
        if (world.rank() == kDeserter) {
          std::ignore = isend(world, small, 0);
          std::ignore = isend(world, large, 0, {.tag = 1});
        }
        if (world.rank() != 0) return;
        EXPECT_EQ(sums, std::vector<int>(5000, world.size()));
        std::vector<int> got(1);
        EXPECT_EQ(recv(world, got, kDeserter), kDeserter);
        EXPECT_EQ(got, small);
        got.resize(large.size());
        recv(world, got, kAnySource, {.tag = 1});
        EXPECT_EQ(got, large);
      },
      kDeserter);
  for (const Outcome& outcome : all)
    EXPECT_EQ(outcome.ending, Ending::kWell) << outcome;
}

// Ranks that have left a group may reuse its id.
TEST_P(Desertion, AfterItsPartInAGroupWhoseIdIsReused) {
  Hosts hosts = GetParam();
  hosts.resize(4, hosts.back());
  const auto all = test::outcomes(
      hosts,
      [&](const Group& world) {
        const Group pair = world.new_group({1, 3});
        Group three = world.new_group({0, 1, 2});
        std::vector<int> data{1};
        for (int i = 0; three.is_member() && i < 5; ++i) {
          if (world.rank() == 2 && i == 4) await_end(world);
          reduce(three, data, data, {.root = 0}).wait();
        }
        if (!pair.is_member()) return;
        const int id = world.rank() == 1 ? three.id() : -1;
        three = Group();
        const Group next = pair.split(0);
        if (id >= 0) {
          EXPECT_EQ(next.id(), id);
        }
        barrier(next).wait();
      },
      kDeserter);
  for (const Outcome& outcome : all)
    EXPECT_EQ(outcome.ending, Ending::kWell) << outcome;
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

// A rank learns of the failure of its group from its own or another host.
// The deserter leaves when all ranks have made the group: who is still in
// new_group() when a rank dies gets an error there.
TEST_P(Desertion, LeavesTheGroupsOfOthersAlone) {
  std::atomic<int> made = 0;
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& world) {
        std::vector<int> rest;
        for (int rank = 0; rank < world.size(); ++rank)
          if (rank != kDeserter) rest.push_back(rank);
        const Group others = world.new_group(rest);
        ++made;
        if (world.rank() == kDeserter) {
          while (made < world.size()) std::this_thread::yield();
          throw std::runtime_error("no more");
        }
        const auto outcome = test::outcome_of([&] { barrier(world).wait(); });
        EXPECT_EQ(outcome.ending, Ending::kCommError) << outcome;
        for (int i = 0; i < 10; ++i)
          test::start(Operation::kAllReduce, others, {.count = 5000})();
        const auto again = test::outcome_of([&] { barrier(world).wait(); });
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

// Messages sent before the end arrive.
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
        while (test::outcome_of([&] { barrier(group).wait(); }).ending ==
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
