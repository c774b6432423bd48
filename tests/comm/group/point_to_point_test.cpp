#include "sheaf/comm/group/point_to_point.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <set>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/process/mailroom.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Ending;
using test::Hosts;
using Ints = std::vector<int>;

class PointToPoint : public testing::TestWithParam<Hosts> {
 protected:
  const test::ExpectFailures failures_;
};

Ints counting(std::size_t count, int from) {
  Ints data(count);
  std::iota(data.begin(), data.end(), from);
  return data;
}

// Sizes around the limits of a letter (8 KiB) and of one part, and larger.
TEST_P(PointToPoint, OfEverySizeArrive) {
  run_threads(GetParam(), [](const Group& group) {
    for (const std::size_t count :
         {0, 1, 2047, 2048, 2049, 16384, 20000, 1000000}) {
      if (group.rank() == 0) send(group, counting(count, 3), 1);
      if (group.rank() != 1) continue;
      Ints data(count);
      EXPECT_EQ(recv(group, data, 0), 0);
      EXPECT_EQ(data, counting(count, 3));
    }
  });
}

TEST_P(PointToPoint, MatchByTagInAnyOrder) {
  run_threads(GetParam(), [](const Group& group) {
    if (group.rank() == 0)
      for (int tag = 0; tag < 20; ++tag)
        send(group, Ints{tag * 10}, 1, {.tag = tag});
    for (int tag = 19; group.rank() == 1 && tag >= 0; --tag) {
      Ints data(1);
      recv(group, data, 0, {.tag = tag});
      EXPECT_EQ(data[0], tag * 10);
    }
  });
}

TEST_P(PointToPoint, OfOneTagKeepTheirOrder) {
  run_threads(GetParam(), [](const Group& group) {
    constexpr int kMany = 500;
    // Small and large messages, which use different paths.
    const auto count = [](int i) { return std::size_t(i % 3 ? 1 : 3000); };
    for (int i = 0; group.rank() == 1 && i < kMany; ++i)
      send(group, Ints(count(i), i), 0, {.tag = 3});
    for (int i = 0; group.rank() == 0 && i < kMany; ++i) {
      Ints data(count(i));
      recv(group, data, 1, {.tag = 3});
      EXPECT_EQ(data, Ints(count(i), i));
    }
  });
}

TEST_P(PointToPoint, FromAnySourceSayTheirSender) {
  run_threads(GetParam(), [](const Group& group) {
    if (group.rank() != 0) return send(group, Ints{group.rank() * 7}, 0);
    std::set<int> senders;
    for (int i = 1; i < group.size(); ++i) {
      Ints data(1);
      const int sender = recv(group, data, kAnySource);
      EXPECT_EQ(data[0], sender * 7);
      senders.insert(sender);
    }
    EXPECT_EQ(senders.size(), static_cast<std::size_t>(group.size() - 1));
    EXPECT_FALSE(senders.contains(0));
  });
}

TEST_P(PointToPoint, ToOneselfArrive) {
  run_threads(GetParam(), [](const Group& group) {
    for (const std::size_t count : {1, 100000}) {
      const Ints sent = counting(count, group.rank());
      Ints data(count);
      Work receive = irecv(group, data, group.rank());
      send(group, sent, group.rank());
      receive.wait();
      EXPECT_EQ(data, sent);
      EXPECT_EQ(receive.source(), group.rank());
      // Also with the send first.
      Work later = isend(group, sent, group.rank(), {.tag = 1});
      recv(group, data, group.rank(), {.tag = 1});
      later.wait();
    }
  });
}

TEST_P(PointToPoint, ThatNobodyWaitsForAreKept) {
  run_threads(GetParam(), [](const Group& group) {
    constexpr int kMany = 2000;
    if (group.rank() == 0)
      for (int i = 0; i < kMany; ++i) send(group, Ints{i}, 1, {.tag = i});
    barrier(group).wait();
    for (int i = kMany - 1; group.rank() == 1 && i >= 0; --i) {
      Ints data(1);
      recv(group, data, 0, {.tag = i});
      EXPECT_EQ(data[0], i);
    }
  });
}

TEST_P(PointToPoint, StartedTogetherEndInAnyOrder) {
  run_threads(GetParam(), [](const Group& group) {
    constexpr int kMany = 50;
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    std::vector<Ints> in(kMany);
    std::vector<Ints> out(kMany);
    std::vector<Work> works;
    for (int i = 0; i < kMany; ++i) {
      const auto at = static_cast<std::size_t>(i);
      in[at].resize(at * 200);
      out[at] = counting(at * 200, group.rank());
      works.push_back(irecv(group, in[at], previous, {.tag = i % 5}));
      works.push_back(isend(group, out[at], next, {.tag = i % 5}));
    }
    for (auto it = works.rbegin(); it != works.rend(); ++it) it->wait();
    for (std::size_t i = 0; i < kMany; ++i)
      EXPECT_EQ(in[i], counting(i * 200, previous)) << i;
  });
}

TEST_P(PointToPoint, OfGroupsDoNotMix) {
  run_threads(GetParam(), [](const Group& world) {
    const Group a = world.split(0);
    const Group b = world.split(0, -world.rank());
    if (world.rank() == 0) {
      send(a, Ints{1}, 1);
      send(b, Ints{2}, b.size() - 2);
      send(world, Ints{3}, 1);
    }
    if (world.rank() != 1) return;
    Ints data(1);
    EXPECT_EQ(recv(world, data, kAnySource), 0);
    EXPECT_EQ(data[0], 3);
    EXPECT_EQ(recv(b, data, kAnySource), b.size() - 1);
    EXPECT_EQ(data[0], 2);
    EXPECT_EQ(recv(a, data, kAnySource), 0);
    EXPECT_EQ(data[0], 1);
  });
}

// Group ids are reused while an unread message is still pending.
TEST_P(PointToPoint, OfAnEndedGroupDoNotReachALaterOne) {
  run_threads(GetParam(), [](const Group& world) {
    for (const std::size_t count : {1, 5000}) {
      int id = 0;
      {
        const Group first = world.split(0);
        id = first.id();
        if (world.rank() == 0) send(first, Ints(count, 1), 1);
        barrier(first).wait();
      }
      barrier(world).wait();
      const Group second = world.split(0);
      EXPECT_EQ(second.id(), id);
      if (world.rank() == 0) send(second, Ints(count, 2), 1);
      if (world.rank() != 1) continue;
      Ints data(count);
      recv(second, data, kAnySource);
      EXPECT_EQ(data, Ints(count, 2));
    }
    barrier(world).wait();
    EXPECT_EQ(world.core().runtime().mailroom().unclaimed_count(), 0u);
  });
}

// Messages sent before this rank has created the group arrive.
TEST_P(PointToPoint, OfAGroupThatIsBeingMadeArrive) {
  run_threads(GetParam(), [](const Group& world) {
    for (int round = 0; round < 50; ++round) {
      const Group group = world.split(0);
      const int next = (group.rank() + 1) % group.size();
      const Ints sent{round};
      Work leave = isend(group, sent, next);
      Ints data(1);
      recv(group, data, kAnySource);
      EXPECT_EQ(data[0], round);
      leave.wait();
    }
  });
}

TEST_P(PointToPoint, AreSentAndReceivedByThreads) {
  run_threads(GetParam(), [](const Group& group) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&group, t] {
        const int next = (group.rank() + 1) % group.size();
        const int previous = (group.rank() + group.size() - 1) % group.size();
        for (int i = 0; i < 50; ++i) {
          const auto count = std::size_t(i % 10 ? 10 : 5000);
          const Ints sent(count, t * 1000 + i);
          Ints data(count);
          Work receive = irecv(group, data, previous, {.tag = t});
          send(group, sent, next, {.tag = t});
          receive.wait();
          EXPECT_EQ(data, sent);
        }
      });
    for (auto& thread : threads) thread.join();
  });
}

TEST_P(PointToPoint, CanBeTestedToTheirEnd) {
  std::latch was_tested(1);
  run_threads(GetParam(), [&](const Group& group) {
    Ints data(3);
    if (group.rank() == 0) {
      was_tested.wait();
      send(group, Ints{1, 2, 3}, 1);
    }
    if (group.rank() != 1) return;
    const Work work = irecv(group, data, kAnySource);
    EXPECT_FALSE(work.test());
    was_tested.count_down();
    while (!work.test()) std::this_thread::yield();
    EXPECT_FALSE(work.error());
    EXPECT_EQ(work.source(), 0);
    EXPECT_EQ(data, (Ints{1, 2, 3}));
  });
}

TEST_P(PointToPoint, OfAnotherSizeOrTypeAreErrors) {
  run_threads(GetParam(), [](const Group& group) {
    for (const std::size_t count : {10, 10000}) {
      if (group.rank() == 0) {
        send(group, Ints(count), 1);
        send(group, Ints(count), 1, {.tag = 1});
        send(group, Ints(count, 5), 1, {.tag = 2});
      }
      if (group.rank() != 1) continue;
      Ints more(count + 1);
      const auto size = test::outcome_of([&] { recv(group, more, 0); });
      EXPECT_EQ(size.ending, Ending::kMismatch) << size;
      EXPECT_TRUE(size.names(concat("rank 0 sent ", count, " elements of i32")))
          << size;
      EXPECT_TRUE(size.names(concat("for ", count + 1, " of i32"))) << size;
      std::vector<float> floats(count);
      const auto type =
          test::outcome_of([&] { recv(group, floats, 0, {.tag = 1}); });
      EXPECT_EQ(type.ending, Ending::kMismatch) << type;
      EXPECT_TRUE(type.names("of f32")) << type;
      Ints data(count);
      recv(group, data, 0, {.tag = 2});  // the next message is valid
      EXPECT_EQ(data, Ints(count, 5));
    }
  });
}

TEST_P(PointToPoint, NobodyWaitsForMayStayUnread) {
  run_threads(GetParam(), [](const Group& group) {
    Ints data(100000);
    const Ints sent{1};
    std::ignore = isend(group, sent, (group.rank() + 1) % group.size());
    std::ignore = irecv(group, data, kAnySource, {.tag = 9});
    barrier(group).wait();
  });
}

// An abandoned receive does not take a message from a later receive.
TEST_P(PointToPoint, OfForgottenReceivesGoToLaterOnes) {
  run_threads(GetParam(), [](const Group& group) {
    Ints data(1);
    if (group.rank() == 1) std::ignore = irecv(group, data, 0);
    barrier(group).wait();
    if (group.rank() == 0) send(group, Ints{4}, 1);
    if (group.rank() != 1) return;
    Ints other(1);
    recv(group, other, 0);
    EXPECT_EQ(other[0], 4);
    EXPECT_EQ(data[0], 0);
  });
}

TEST_P(PointToPoint, CrossCollectives) {
  run_threads(GetParam(), [](const Group& group) {
    const int next = (group.rank() + 1) % group.size();
    Ints data(20000);
    const Ints sent = counting(20000, group.rank());
    Work receive = irecv(group, data, kAnySource);
    Ints sum{1};
    all_reduce(group, sum).wait();
    Work leave = isend(group, sent, next);
    all_reduce(group, sum).wait();
    receive.wait();
    leave.wait();
    EXPECT_EQ(sum[0], group.size() * group.size());
    EXPECT_EQ(data, counting(20000, receive.source()));
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, PointToPoint,
                         testing::Values(Hosts{"a", "a", "a"}, Hosts{"a", "b"},
                                         Hosts{"a", "b", "a", "c"}),
                         test::joined);

}  // namespace
}  // namespace sheaf::comm
