#include "sheaf/comm/group/world.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

TEST(World, RanksAreThreadsOnTheirHosts) {
  std::array<std::atomic<int>, 3> hosts{};
  run_threads({"x", "y", "x"}, [&](const Group& group) {
    EXPECT_EQ(group.size(), 3);
    EXPECT_EQ(group.host_name(), group.rank() == 1 ? "y" : "x");
    hosts[static_cast<std::size_t>(group.rank())] = group.host_index() + 1;
  });
  EXPECT_EQ(hosts[0], 1);
  EXPECT_EQ(hosts[1], 2);
  EXPECT_EQ(hosts[2], 1);
}

TEST(World, RanksThatAreCountedShareAHost) {
  run_threads(4, [](const Group& group) {
    EXPECT_EQ(group.size(), 4);
    EXPECT_EQ(group.host_count(), 1);
    EXPECT_EQ(group.local_rank(), group.rank());
  });
}

TEST(World, TheErrorOfARankIsRethrown) {
  expect_throws<IoError>(
      [] { run_threads(1, [](const Group&) { throw IoError("no room"); }); },
      {"no room"});
}

TEST(World, OptionsReachAllRanks) {
  topo::Options options;
  options.reproducible = true;
  run_threads(
      2,
      [](const Group& group) {
        EXPECT_TRUE(group.core().runtime().options().reproducible);
      },
      options);
}

TEST(World, OverATransportEndsWithItsObject) {
  Group outlives;
  {
    const World world =
        init(std::move(make_thread_transports(1).front()), topo::Options{});
    EXPECT_EQ(world.rank(), 0);
    EXPECT_EQ(world.size(), 1);
    const Group& group = world;
    barrier(group).wait();
    outlives = group;
    EXPECT_FALSE(outlives.core().runtime().is_finalized());
  }
  EXPECT_TRUE(outlives.core().runtime().is_finalized());
}

TEST(World, MovesWithoutEnding) {
  World first =
      init(std::move(make_thread_transports(1).front()), topo::Options{});
  const World second = std::move(first);
  EXPECT_FALSE(second.group().core().runtime().is_finalized());
  barrier(second).wait();
}

}  // namespace
}  // namespace sheaf::comm
