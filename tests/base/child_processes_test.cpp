#include "sheaf/base/child_processes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace sheaf {
namespace {

// The result of `ask` in a forked child.
bool in_child(const std::function<bool()>& ask) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ask() ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 1;
}

ino_t file_of(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  return status.st_ino;
}

bool is_inherited(int fd) {
  const ino_t mine = file_of(fd);
  return in_child([&] { return file_of(fd) == mine; });
}

TEST(ChildProcesses, DoNotGetPrivateDescriptors) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int fd = ends[0];
  EXPECT_TRUE(is_inherited(fd));
  close_in_children(fd);
  EXPECT_FALSE(is_inherited(fd));
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);  // this process keeps it
  keep_in_children(fd);
  EXPECT_TRUE(is_inherited(fd));
  for (const int end : ends) ::close(end);
}

// The child has a copy of the owner, which closes that number at its end.
TEST(ChildProcesses, DoNotReuseTheirNumbers) {
  const int fd = ::open("/dev/null", O_RDONLY);
  close_in_children(fd);
  EXPECT_FALSE(in_child([&] { return ::open("/dev/zero", O_RDONLY) == fd; }));
  keep_in_children(fd);
  ::close(fd);
}

}  // namespace
}  // namespace sheaf
