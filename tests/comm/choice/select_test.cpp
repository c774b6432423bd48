#include "sheaf/comm/choice/select.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Hosts;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// The choice that rank 0 makes for an all-reduce of f32, as text.
std::string chosen(const Hosts& hosts, std::size_t bytes,
                   const CollectiveOptions& call = {},
                   const std::string& world = "") {
  std::string text;
  run_threads(
      hosts,
      [&](const Group& group) {
        const Choice choice =
            select_all_reduce(group.core(), DType::kF32, bytes, call);
        if (group.rank() == 0) text = text_of(choice, group.core().host_map());
      },
      topo::parse_options(world));
  return text;
}

const Hosts kOne{"a", "a", "a", "a"};
const Hosts kTwoByTwo{"a", "a", "b", "b"};

// The limit is 16 KiB for up to four ranks of one host.
TEST(Select, SmallBuffersOfOneHostAreSentOnArrival) {
  EXPECT_EQ(chosen(kOne, 0), "small");
  EXPECT_EQ(chosen(kOne, kSmallBytes), "small");
  EXPECT_EQ(chosen(kOne, kSmallBytes + 1), "shared segment=256K");
  const Hosts eight(8, "a");
  EXPECT_EQ(chosen(eight, kSmallBytes / 2), "small");
  EXPECT_EQ(chosen(eight, kSmallBytes / 2 + 1), "shared segment=256K");
}

TEST(Select, LargeBuffersOfSeveralHostsUseAllLanes) {
  EXPECT_EQ(chosen(kTwoByTwo, 64 << 10).substr(0, 14), "lanes=1 tiers=");
  EXPECT_EQ(chosen(kTwoByTwo, (64 << 10) + 1).substr(0, 14), "lanes=2 tiers=");
  EXPECT_EQ(chosen({"a", "a", "a", "b"}, kMiB).substr(0, 8), "lanes=3 ");
}

TEST(Select, TheCallsAlgorithmIsForced) {
  EXPECT_EQ(chosen(kOne, 4, {.algorithm = Algorithm::kRing}),
            "flat tiers=ring:4 segment=1M");
  EXPECT_EQ(chosen(kTwoByTwo, kMiB, {.algorithm = Algorithm::kHalving}),
            "flat tiers=halving:4 segment=1M");
  EXPECT_EQ(chosen(kTwoByTwo, kMiB, {.algorithm = Algorithm::kTree}),
            "flat tiers=tree:4 segment=1M");
  EXPECT_EQ(chosen(kOne, 4, {.algorithm = Algorithm::kShared}),
            "shared segment=256K");
  EXPECT_EQ(chosen(kOne, 4, {.algorithm = Algorithm::kMpi}), "mpi");
}

TEST(Select, TheCallsAlgorithmOverridesTheWorlds) {
  EXPECT_EQ(chosen(kOne, 4, {}, "-algorithm tree"),
            "flat tiers=tree:4 segment=1M");
  EXPECT_EQ(chosen(kOne, 4, {.algorithm = Algorithm::kRing}, "-algorithm tree"),
            "flat tiers=ring:4 segment=1M");
}

TEST(Select, SharedMemoryNeedsOneHost) {
  run_threads({"a", "b"}, [](const Group& group) {
    expect_throws<UsageError>(
        [&] {
          select_all_reduce(group.core(), DType::kF32, 4,
                            {.algorithm = Algorithm::kShared});
        },
        {"one host", "group 0 has 2", "hierarchical"});
  });
}

TEST(Select, ModesDecideWhereNothingIsForced) {
  EXPECT_EQ(chosen(kOne, 4, {}, "-mode m"), "mpi");
  EXPECT_EQ(chosen(kOne, 4, {}, "-mode r"), "flat tiers=ring:4 segment=1M");
  EXPECT_EQ(chosen(kOne, 4, {}, "-mode r:2x2"),
            "flat tiers=ring:2,ring:2 segment=1M");
  EXPECT_EQ(chosen(kOne, 4, {.algorithm = Algorithm::kTree}, "-mode m"),
            "flat tiers=tree:4 segment=1M");
}

// Shared memory serves the dimensions within a host.
TEST(Select, DeclaredTiersThatMatchTheHostsAreKept) {
  const Hosts four{"a", "a", "b", "b", "c", "c", "d", "d"};
  const std::string text = chosen(four, kMiB, {}, "-mode b:2x2x2");
  EXPECT_EQ(text.substr(0, 14), "lanes=2 tiers=");
  EXPECT_NE(text.find(":2,"), std::string::npos) << text;
  // 4x2: the first tier crosses the boundaries of hosts.
  EXPECT_EQ(
      chosen({"a", "a", "a", "b", "b", "b", "c", "c"}, kMiB, {}, "-mode b:4x2")
          .substr(0, 5),
      "flat ");
}

TEST(Select, ReproducibleOverridesTheRest) {
  EXPECT_EQ(chosen(kTwoByTwo, 4, {.reproducible = true}), "ordered");
  EXPECT_EQ(chosen(kOne, 4, {.reproducible = true}), "small");
  EXPECT_EQ(chosen(kOne, kMiB, {.reproducible = true}), "shared segment=256K");
  EXPECT_EQ(chosen(kTwoByTwo, 4,
                   {.algorithm = Algorithm::kRing, .reproducible = true}),
            "ordered");
  EXPECT_EQ(chosen(kTwoByTwo, 4, {}, "-reproducible"), "ordered");
}

TEST(Select, RootedOperationsUseATreeOrSharedMemory) {
  run_threads(kTwoByTwo, [](const Group& group) {
    const auto path = [&](Flow flow, const CollectiveOptions& options) {
      return select_rooted(group.core(), flow, kMiB, options);
    };
    EXPECT_EQ(path(Flow::kReduce, {.reproducible = true}).path,
              DataPath::kOrdered);
    // A broadcast adds nothing, so its order does not matter.
    EXPECT_EQ(path(Flow::kBroadcast, {.reproducible = true}).path,
              DataPath::kPipeline);
    EXPECT_TRUE(
        path(Flow::kReduce, {.algorithm = Algorithm::kTree}).plan.is_flat);
    EXPECT_FALSE(
        path(Flow::kReduce, {.algorithm = Algorithm::kRing}).plan.is_flat);
  });
}

}  // namespace
}  // namespace sheaf::comm
