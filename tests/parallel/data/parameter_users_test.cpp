#include "sheaf/parallel/data/parameter_users.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

TEST(ParameterUsers, CountRanksAndLateGradients) {
  run_threads(3, [](const Group& group) {
    ParameterUsers users(3, group.size());
    users.set_own(0, /*is_used=*/true, /*is_late=*/false);
    users.set_own(1, group.rank() == 1, /*is_late=*/group.rank() == 1);
    users.set_own(2, group.rank() > 0, /*is_late=*/group.rank() > 0);
    EXPECT_EQ(users.count(group, "users"), 3 * 4);
    EXPECT_EQ(users.users(0), 3);
    EXPECT_EQ(users.users(1), 1);
    EXPECT_EQ(users.users(2), 2);
    EXPECT_FALSE(users.is_late_anywhere(0));
    EXPECT_TRUE(users.is_late_anywhere(1));
    EXPECT_TRUE(users.is_late_anywhere(2));
  });
}

TEST(ParameterUsers, ARankIsRegularIfItUsesWhatIsExpected) {
  ParameterUsers users(2, 4);
  const auto is_regular = [&](bool first, bool second, bool is_late = false,
                              bool has_data = true) {
    users.set_own(0, first, is_late);
    users.set_own(1, second, false);
    return users.is_regular(has_data);
  };
  EXPECT_TRUE(is_regular(true, true));
  EXPECT_FALSE(is_regular(true, false));
  EXPECT_FALSE(is_regular(true, true, /*is_late=*/true));
  EXPECT_FALSE(is_regular(true, true, false, /*has_data=*/false));
  EXPECT_TRUE(is_regular(false, false, false, /*has_data=*/false));
  users.expect_none(1);
  EXPECT_TRUE(users.is_expected(0));
  EXPECT_FALSE(users.is_expected(1));
  EXPECT_TRUE(is_regular(true, false));
  EXPECT_FALSE(is_regular(true, true));
}

// The result of count_regular() is that of count() if all ranks are regular.
TEST(ParameterUsers, OfRegularRanksNeedNoExchange) {
  run_threads(3, [](const Group& group) {
    const bool has_data = group.rank() != 1;
    ParameterUsers exchanged(2, group.size());
    ParameterUsers computed(2, group.size());
    for (ParameterUsers* const one : {&exchanged, &computed}) {
      one->set_active(2);
      one->expect_none(1);
      one->set_own(0, has_data, false);
      one->set_own(1, false, false);
      EXPECT_TRUE(one->is_regular(has_data));
    }
    exchanged.count(group, "users");
    computed.count_regular();
    for (const std::size_t i : {0, 1}) {
      EXPECT_EQ(exchanged.users(i), computed.users(i));
      EXPECT_FALSE(computed.is_late_anywhere(i));
    }
    EXPECT_EQ(computed.users(0), 2);
    EXPECT_EQ(computed.users(1), 0);
  });
}

}  // namespace
}  // namespace sheaf::parallel
