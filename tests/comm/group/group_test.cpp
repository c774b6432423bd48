#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/sweep.hpp"

namespace sheaf::comm {
namespace {

using test::Case;
using test::Hosts;

void use(const Group& group, std::size_t count = 10) {
  test::start(Operation::kAllReduce, group, {.count = count})();
}

class Groups : public testing::TestWithParam<Hosts> {};

TEST_P(Groups, SplitByColorAndKey) {
  run_threads(GetParam(), [](const Group& world) {
    const Group group = world.split(world.rank() % 2, -world.rank());
    const int evens = (world.size() + 1) / 2;
    ASSERT_EQ(group.size(), world.rank() % 2 ? world.size() - evens : evens);
    for (int rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ(group.world_rank(rank) % 2, world.rank() % 2);
      EXPECT_LT(group.world_rank(rank),
                rank > 0 ? group.world_rank(rank - 1) : world.size());
    }
    EXPECT_EQ(group.world_rank(group.rank()), world.rank());
    test::check_everything(group, {.count = 33});
  });
}

TEST_P(Groups, EqualKeysKeepTheOrderOfRanks) {
  run_threads(GetParam(), [](const Group& world) {
    const Group group = world.split(0, 5);
    EXPECT_EQ(group.rank(), world.rank());
    EXPECT_EQ(group.size(), world.size());
    EXPECT_NE(group.id(), world.id());
  });
}

TEST_P(Groups, NegativeColorsJoinNone) {
  run_threads(GetParam(), [](const Group& world) {
    const Group group = world.split(world.rank() == 0 ? -1 : 7);
    EXPECT_EQ(group.is_member(), world.rank() != 0);
    if (group.is_member()) use(group);
    EXPECT_FALSE(world.split(-3).is_member());
    use(world);
  });
}

TEST_P(Groups, NewGroupKeepsTheOrderGiven) {
  run_threads(GetParam(), [](const Group& world) {
    const int last = world.size() - 1;
    const Group group = world.new_group({last, 0});
    EXPECT_EQ(group.is_member(), world.rank() == 0 || world.rank() == last);
    if (!group.is_member()) return;
    EXPECT_EQ(group.rank(), world.rank() == last ? 0 : 1);
    test::check_everything(group, {.count = 33});
  });
}

// Otherwise the ranks would be in different groups.
TEST_P(Groups, NewGroupWantsOneListOnAllRanks) {
  const auto error_of = [](const Group& world, std::vector<int> ranks) {
    try {
      world.new_group(ranks);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  run_threads(GetParam(), [&](const Group& world) {
    const int last = world.size() - 1;
    const bool is_last = world.rank() == last;
    EXPECT_NE(
        error_of(world, is_last ? std::vector{0, last} : std::vector{last, 0})
            .find(concat("rank ", last, " passed a different list")),
        std::string::npos);
    EXPECT_NE(error_of(world, is_last ? std::vector{0} : std::vector{0, last})
                  .find("a different list (1 ranks)"),
              std::string::npos);
    EXPECT_NE(error_of(world, world.rank() == 0 ? std::vector{0, last}
                                                : std::vector{0})
                  .find("a different list (1 ranks) than rank 0 (2"),
              std::string::npos);
    EXPECT_NE(error_of(world, {0, is_last ? last + 1 : last})
                  .find(is_last ? "is not in the group"
                                : concat("rank ", last, " passed ranks")),
              std::string::npos);
    EXPECT_EQ(world.new_group({0}).is_member(), world.rank() == 0);
  });
}

TEST_P(Groups, KnowTheirHosts) {
  const Hosts& hosts = GetParam();
  run_threads(hosts, [&](const Group& world) {
    const auto at = [&](int rank) {
      return hosts[static_cast<std::size_t>(rank)];
    };
    EXPECT_EQ(world.host_name(), at(world.rank()));
    const Group group = world.new_group({0, world.size() - 1});
    if (!group.is_member()) return;
    const bool is_one_host = at(0) == at(world.size() - 1);
    EXPECT_EQ(group.host_count(), is_one_host ? 1 : 2);
    EXPECT_EQ(group.local_size(), is_one_host ? 2 : 1);
    EXPECT_EQ(group.local_rank(), is_one_host ? group.rank() : 0);
    EXPECT_EQ(group.host_index(), is_one_host ? 0 : group.rank());
  });
}

TEST_P(Groups, OfGroupsOfGroups) {
  run_threads(GetParam(), [](const Group& world) {
    Group group = world;
    for (int depth = 0; depth < 5; ++depth) {
      group = group.split(0, -group.rank());  // drops the parent's handle
      use(group);
    }
    EXPECT_EQ(group.world_rank(group.rank()), world.rank());
  });
}

TEST_P(Groups, AreUsedByThreadsAtTheSameTime) {
  run_threads(GetParam(), [](const Group& world) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([group = world.split(0, t % 2 ? -world.rank() : 0)] {
        for (int i = 0; i < 10; ++i) {
          use(group);
          use(group, 20000);
        }
        test::check_everything(group, {.count = 33});
      });
    for (auto& thread : threads) thread.join();
    use(world);
  });
}

TEST_P(Groups, AreUsedOutOfStep) {
  run_threads(GetParam(), [](const Group& world) {
    const Group a = world.split(0);
    const Group b = world.split(0);
    Case test{.count = 5000};
    test.options.async = true;
    // Ranks begin with one or the other.
    const bool is_even = world.rank() % 2 == 0;
    auto first = test::start(Operation::kAllReduce, is_even ? a : b, test);
    auto second = test::start(Operation::kAllReduce, is_even ? b : a, test);
    second();
    first();
  });
}

TEST_P(Groups, LiveOnWithTheirLastHandle) {
  run_threads(GetParam(), [](const Group& world) {
    Group copy;
    {
      const Group group = world.split(0);
      copy = group;
    }
    use(copy);
  });
}

// The regions of the groups would fill the arena if they were not freed.
TEST_P(Groups, GiveTheirMemoryBack) {
  run_threads(GetParam(), [](const Group& world) {
    Heap& heap = world.core().runtime().memory().heap();
    const std::size_t free = 64 * LocalGroup::region_bytes(2);
    std::byte* rest =
        heap.allocate(heap.file().size() - free, /*commit=*/false);
    const int rounds = 128;
    for (int i = 0; i < rounds; ++i) {
      const Group group = world.split(world.rank() % 2);
      EXPECT_LE(group.id(), 2);
      if (i % 16 == 0) use(group);
    }
    heap.free(rest);
  });
}

TEST_P(Groups, SurviveInLargeNumbers) {
  run_threads(GetParam(), [](const Group& world) {
    std::vector<Group> groups;
    for (int i = 0; i < 200; ++i) groups.push_back(world.split(0, i % 2));
    for (const Group& group : groups) use(group);
    groups.erase(groups.begin(), groups.begin() + 100);
    for (int i = 0; i < 100; ++i) groups.push_back(world.split(0));
    for (const Group& group : groups) use(group);
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, Groups,
                         testing::Values(Hosts{"a", "a", "a", "a"},
                                         Hosts{"a", "a", "b", "b"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "b", "a", "b", "a"}),
                         test::joined);

TEST(OneGroup, OfOneRankDoEverythingAlone) {
  run_threads(1, [](const Group& world) {
    test::check_everything(world, {.count = 100});
    test::check_everything(world.split(3), {.count = 100});
    test::check_everything(world.new_group({0}), {.count = 100});
  });
}

TEST(OneGroup, TooManyGroupsAreAnError) {
  run_threads(1, [](const Group& world) {
    std::vector<Group> groups;
    const auto outcome = test::outcome_of([&] {
      for (int i = 0; i <= kMaxGroups; ++i) groups.push_back(world.split(0));
    });
    EXPECT_EQ(outcome.ending, test::Ending::kUsage) << outcome;
    groups.clear();
    use(world.split(0));
  });
}

TEST(OneGroup, RanksListTheirLastOperations) {
  run_threads(2, [](const Group& world) {
    const Group group = world.split(0);
    for (int i = 0; i < 200; ++i) use(group, 5);
    const std::string text = world.recent_operations();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 128);
    EXPECT_NE(
        text.find("after all_reduce #200 (f32 sum, 5 elements) of group " +
                  std::to_string(group.id())),
        std::string::npos)
        << text;
    EXPECT_LT(text.find("#199"), text.find("#200"));
  });
}

}  // namespace
}  // namespace sheaf::comm
