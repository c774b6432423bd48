#include "sheaf/comm/group/world.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/transport/transport.hpp"
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

// The transport of a single rank, which reports its end.
class ReportingTransport : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "reporting"; }
  Request send(int, Tag, const void*, std::size_t) override { return {}; }
  Request receive(int, Tag, void*, std::size_t) override { return {}; }
  bool test(Request&) override { return true; }
  void abandon(Request&) noexcept override {}
  std::optional<Arrived> probe(Tag, std::span<const int>) override {
    return std::nullopt;
  }
  void finalize(bool clean) override {
    std::fputs(clean ? "orderly end\n" : "failed\n", stderr);
  }
};

World reporting_world() {
  return init(std::make_unique<ReportingTransport>(), topo::Options{});
}

// In a child process.
[[noreturn]] void exit_with(int code, int calls_in_progress) {
  const World world = reporting_world();
  world.group().core().runtime().add_calls(calls_in_progress);
  std::exit(code);
}

TEST(WorldAtExit, EndsIfTheProgramSucceeds) {
  EXPECT_EXIT(exit_with(0, /*calls_in_progress=*/0), testing::ExitedWithCode(0),
              "^orderly end\n$");
}

TEST(WorldAtExit, DoesNotEndIfTheProgramFailsOrIsInACall) {
  EXPECT_EXIT(exit_with(1, /*calls_in_progress=*/0), testing::ExitedWithCode(1),
              "^$");
  EXPECT_EXIT(exit_with(0, /*calls_in_progress=*/1), testing::ExitedWithCode(0),
              "^$");
}

TEST(WorldAtExit, AChildDoesNotEndTheWorldOfItsParent) {
  std::optional<World> world(reporting_world());
  EXPECT_EXIT(std::exit(0), testing::ExitedWithCode(0), "^$");
  testing::internal::CaptureStderr();
  world.reset();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "orderly end\n");
}

}  // namespace
}  // namespace sheaf::comm
