#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

TEST(FindExecutable, SearchesAsAShellDoes) {
  EXPECT_EQ(find_executable("/bin/sh"), "/bin/sh");
  EXPECT_NE(find_executable("sh"), "");
  EXPECT_EQ(find_executable("no-such-program"), "");
  EXPECT_EQ(find_executable("/bin"), "");
  EXPECT_EQ(find_executable("/etc/passwd"), "");
  EXPECT_EQ(find_executable(""), "");
  EXPECT_NO_THROW(check_executable("sh"));
  EXPECT_THROW(check_executable("/etc/passwd"), UsageError);
  EXPECT_EQ(find_executable(this_executable()), this_executable());
}

}  // namespace
}  // namespace sheaf::cli
