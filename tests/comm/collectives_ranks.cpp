// The sweep over real processes; with SHEAF_HOSTS, over pretended hosts.

#include <gtest/gtest.h>

#include "tests/support/sweep.hpp"
#include "tests/support/world.hpp"

namespace sheaf::comm {
namespace {

using test::Case;
using test::Memory;

TEST(Ranks, EveryTypeAndReduction) {
  for (int type = 0; type < kDTypeCount; ++type)
    for (int op = 0; op < kReduceOpCount; ++op) {
      Case test{.dtype = static_cast<DType>(type),
                .op = static_cast<ReduceOp>(op),
                .count = 100};
      if (is_defined(test.op, test.dtype))
        test::check_everything(test::world(), test);
    }
}

TEST(Ranks, EverySize) {
  for (const auto memory : {Memory::kPlain, Memory::kArena})
    for (const std::size_t count : {0, 1, 4097, 65537, 300001})
      test::check_large(test::world(), {.count = count, .memory = memory});
}

TEST(Ranks, EveryAlgorithm) {
  for (const auto algorithm : {Algorithm::kRing, Algorithm::kHalving,
                               Algorithm::kTree, Algorithm::kHierarchical})
    for (const std::size_t count : {1, 1000, 300001}) {
      Case test{.count = count};
      test.options.algorithm = algorithm;
      test::check_all_reduce(test::world(), test);
    }
}

TEST(Ranks, GroupsOfGroups) {
  const Group& world = test::world();
  const Group half = world.split(world.rank() % 2, -world.rank());
  test::check_everything(half, {.count = 1000});
  const Group last = world.new_group({world.size() - 1});
  EXPECT_EQ(last.is_member(), world.rank() == world.size() - 1);
  if (last.is_member()) test::check_everything(last, {.count = 10});
  test::check_everything(world, {.count = 1000});
}

}  // namespace
}  // namespace sheaf::comm
