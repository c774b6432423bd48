#include "sheaf/comm/network/socket.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/comm/network/loopback.hpp"
#include "tests/comm/network/socket_pair.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::steady_clock;

TEST(Socket, OwnsItsDescriptor) {
  auto [mine, theirs] = test::socket_pair();
  Socket other(std::move(mine));
  EXPECT_FALSE(mine);  // NOLINT: defined for sockets
  EXPECT_TRUE(other);
  other.close();
  EXPECT_FALSE(other);
  char byte = 0;
  EXPECT_EQ(::recv(theirs.fd(), &byte, 1, 0), 0);
}

// A child process that lives on after its parent would keep the connection.
TEST(Socket, IsNotKeptByChildProcesses) {
  auto [mine, theirs] = test::socket_pair();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;  // lives until the test ends
    ::close(ends[1]);
    [[maybe_unused]] const auto got = ::read(ends[0], &byte, 1);
    ::_exit(0);
  }
  mine.close();
  char byte = 0;
  EXPECT_TRUE(is_ready(theirs.fd(), POLLIN, test::soon()));
  EXPECT_EQ(::recv(theirs.fd(), &byte, 1, MSG_DONTWAIT), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
}

TEST(Socket, ReadWithinNeedsAllBytes) {
  auto [mine, theirs] = test::socket_pair();
  const int sent = 42;
  int got = 0;
  ASSERT_TRUE(write_within(theirs.fd(), &sent, 3, test::soon()));
  EXPECT_FALSE(read_within(mine.fd(), &got, sizeof got, steady_clock::now()));
  ASSERT_TRUE(write_within(theirs.fd(), &sent, sizeof sent, test::soon()));
  EXPECT_TRUE(read_within(mine.fd(), &got, sizeof got, test::soon()));
  EXPECT_EQ(got, sent);
  theirs.close();
  EXPECT_FALSE(read_within(mine.fd(), &got, sizeof got, test::soon()));
  EXPECT_FALSE(write_within(mine.fd(), &sent, sizeof sent, test::soon()));
}

TEST(Socket, WriteWithinEndsAtTheDeadline) {
  auto [mine, theirs] = test::socket_pair();
  const std::vector<char> large(16 << 20);  // more than the buffers hold
  EXPECT_FALSE(
      write_within(mine.fd(), large.data(), large.size(), steady_clock::now()));
}

TEST(Socket, TheTimeLeftIsNeverNegative) {
  EXPECT_EQ(milliseconds_until(Deadline::min()), 0);
  EXPECT_GT(milliseconds_until(test::soon()), 0);
  EXPECT_GT(milliseconds_until(Deadline::max()), 0);
}

}  // namespace
}  // namespace sheaf::comm
