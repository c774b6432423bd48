#include "sheaf/base/child_processes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sheaf {
namespace {

// Whether a forked child has the descriptor.
bool is_inherited(int fd) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::fcntl(fd, F_GETFD) >= 0 ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 1;
}

TEST(ChildProcesses, DoNotGetPrivateDescriptors) {
  const int fd = ::open("/dev/null", O_RDONLY);
  EXPECT_TRUE(is_inherited(fd));
  close_in_children(fd);
  EXPECT_FALSE(is_inherited(fd));
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);  // this process keeps it
  keep_in_children(fd);
  EXPECT_TRUE(is_inherited(fd));
  ::close(fd);
}

}  // namespace
}  // namespace sheaf
