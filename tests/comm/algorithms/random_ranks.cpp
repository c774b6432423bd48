// Random sequences of operations on random groups of real ranks.

#include <gtest/gtest.h>

#include "tests/support/random_use.hpp"
#include "tests/support/world.hpp"

namespace sheaf::comm {
namespace {

TEST(RandomRanks, GiveNoWrongResult) {
  test::use_at_random(test::world(), test::seed_or(4711), 1000);
}

}  // namespace
}  // namespace sheaf::comm
