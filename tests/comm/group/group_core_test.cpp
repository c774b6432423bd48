#include "sheaf/comm/group/group_core.hpp"

#include <gtest/gtest.h>

#include <latch>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

TEST(GroupCore, NamesRanksInTheWorldWhereTheyDiffer) {
  run_threads(3, [](const Group& world) {
    EXPECT_EQ(world.core().rank_text(2), "rank 2");
    const Group turned = world.new_group({2, 1, 0});
    EXPECT_EQ(turned.core().rank_text(0), "rank 0 (2 in the world)");
    EXPECT_EQ(turned.core().rank_text(1), "rank 1");
  });
}

// The groups of one split() have the same id and no rank in common.
TEST(GroupCore, AlarmKeysDistinguishGroupsWithEqualIds) {
  run_threads(4, [](const Group& world) {
    const Group half = world.split(world.rank() % 2, /*key=*/-world.rank());
    EXPECT_EQ(half.core().alarm_key(),
              half.id() + kMaxGroups * (world.rank() % 2));
    EXPECT_EQ(world.core().alarm_key(), 0);
  });
}

// The end of a rank is not known while it has calls to make.
TEST(GroupCore, QueuedJobsOfSmallerGroupsDelayTheEnd) {
  run_threads(1, [](const Group& world) {
    const Group group = world.split(0);
    std::latch may_end(1);
    Work work = group.core().submit(/*async=*/true, [&] { may_end.wait(); });
    RankEnd& end = world.core().runtime().my_end();
    end.note_end();
    EXPECT_FALSE(end.has_ended());
    may_end.count_down();
    work.wait();
    EXPECT_TRUE(end.has_ended());
  });
}

// Otherwise a rank that ended before its first call in the group would seem to
// have made all calls.
TEST(GroupCore, JoiningIsNotedAsCallZero) {
  run_threads(2, [](const Group& world) {
    const RankEnd& end = world.core().runtime().my_end();
    const Group group = world.split(0);
    const CallNumber last = end.last(group.id());
    EXPECT_EQ(last.serial, group.core().serial());
    EXPECT_EQ(last.sequence, 0u);
    EXPECT_TRUE(end.has_made(group.core().number_of(0)));
    EXPECT_FALSE(end.has_made(group.core().number_of(1)));
  });
}

TEST(GroupCore, KeepsItsFirstFailure) {
  run_threads(1, [](const Group& world) {
    const Group group = world.split(0);
    EXPECT_NO_THROW(group.core().throw_if_failed());
    group.core().fail(std::make_exception_ptr(CommError("first")));
    group.core().fail(std::make_exception_ptr(CommError("second")));
    expect_throws<CommError>([&] { group.core().throw_if_failed(); },
                             {"first"});
    EXPECT_NO_THROW(world.core().throw_if_failed());
  });
}

// The alarms of a failed group stay, and must not concern another group.
TEST(GroupCore, TheIdOfAFailedGroupIsNotUsedAgain) {
  run_threads(1, [](const Group& world) {
    int id = 0;
    {
      const Group group = world.split(0);
      id = group.id();
    }
    EXPECT_EQ(world.split(0).id(), id);
    {
      const Group group = world.split(0);
      group.core().fail(std::make_exception_ptr(CommError("failed")));
    }
    EXPECT_NE(world.split(0).id(), id);
  });
}

TEST(GroupCore, NumbersItsCallsAndChannels) {
  run_threads(1, [](const Group& group) {
    GroupCore& core = group.core();
    EXPECT_EQ(core.next_sequence(), 1u);
    EXPECT_EQ(core.next_sequence(), 2u);
    EXPECT_EQ(core.next_channel(), 0u);
    EXPECT_EQ(core.next_channel(), 1u);
    EXPECT_EQ(core.segments(), 0u);
    core.add_segments(5);
    EXPECT_EQ(core.segments(), 5u);
    EXPECT_EQ(core.number_of(7).sequence, 7u);
  });
}

}  // namespace
}  // namespace sheaf::comm
