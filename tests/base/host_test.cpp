#include "sheaf/base/host.hpp"

#include <gtest/gtest.h>
#include <sys/utsname.h>

namespace sheaf {
namespace {

TEST(Host, HasTheKernelsName) {
  utsname names{};
  ASSERT_EQ(::uname(&names), 0);
  EXPECT_EQ(host_name(), names.nodename);
}

TEST(Host, IsTheSameBootAllTheTime) {
  EXPECT_EQ(boot_id(), boot_id());
  EXPECT_EQ(boot_id().size(), 36u) << boot_id();  // a UUID
}

}  // namespace
}  // namespace sheaf
