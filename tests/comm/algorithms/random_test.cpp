// 10,000 random sequences of operations on random groups.

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/random_use.hpp"

namespace sheaf::comm {
namespace {

using test::Hosts;

constexpr int kSequences = 10000;
constexpr int kWorlds = 10;

class RandomUse : public testing::TestWithParam<Hosts> {};

TEST_P(RandomUse, GivesNoWrongResult) {
  const auto seed = test::seed_or(GetParam().size() * 1000 + 7);
  run_threads(GetParam(), [&](const Group& world) {
    test::use_at_random(world, seed, kSequences / kWorlds);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, RandomUse,
    testing::Values(Hosts{"a"}, Hosts{"a", "a"}, Hosts{"a", "a", "a"},
                    Hosts{"a", "a", "a", "a", "a"}, Hosts{"a", "b"},
                    Hosts{"a", "a", "b", "b"}, Hosts{"a", "b", "a", "b"},
                    Hosts{"a", "b", "c"}, Hosts{"a", "b", "b", "c"},
                    Hosts{"a", "b", "b", "a", "b", "a"}),
    test::joined);

}  // namespace
}  // namespace sheaf::comm
