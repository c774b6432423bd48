#include "sheaf/cli/launch/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

namespace sheaf::cli {
namespace {

TEST(ShellQuote, QuotesWhatAShellWouldTouch) {
  EXPECT_EQ(shell_quote({"a-b", "c d", "", "it's", "$x"}),
            R"(a-b 'c d' '' 'it'\''s' '$x')");
}

bool is_descriptor(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(Fd, ClosesItsDescriptor) {
  int number = -1;
  {
    Pipe pipe = make_pipe();
    number = pipe.write.get();
    const Fd owner = std::move(pipe.write);
    EXPECT_FALSE(pipe.write.is_open());  // NOLINT: defined for Fd
    EXPECT_EQ(owner.get(), number);
    EXPECT_TRUE(is_descriptor(number));
  }
  EXPECT_FALSE(is_descriptor(number));
}

TEST(Fd, AssignmentClosesThePreviousDescriptor) {
  Pipe pipe = make_pipe();
  const int before = pipe.read.get();
  const int after = pipe.write.get();
  pipe.read = std::move(pipe.write);
  EXPECT_FALSE(is_descriptor(before));
  EXPECT_EQ(pipe.read.get(), after);
  EXPECT_TRUE(is_descriptor(after));
}

TEST(Fd, DoesNotCloseWhatItReleased) {
  int number = -1;
  {
    Pipe pipe = make_pipe();
    number = pipe.read.release();
    EXPECT_FALSE(pipe.read.is_open());
  }
  EXPECT_TRUE(is_descriptor(number));
  ::close(number);
}

TEST(Pipe, ReadsWhatIsThereAndSeesTheEnd) {
  Pipe pipe = make_pipe();
  EXPECT_TRUE(write_all(pipe.write.get(), "hello"));
  EXPECT_EQ(read_some(pipe.read, 3), "hel");
  EXPECT_EQ(read_some(pipe.read, 100), "lo");
  pipe.write.reset();
  EXPECT_EQ(read_some(pipe.read, 100), "");
  EXPECT_FALSE(pipe.read.is_open());
}

TEST(SignalQueue, HoldsSignalsBack) {
  SignalQueue queue({SIGUSR1});
  EXPECT_EQ(queue.next().number, 0);
  ::raise(SIGUSR1);
  const SignalQueue::Signal signal = queue.next();
  EXPECT_EQ(signal.number, SIGUSR1);
  EXPECT_FALSE(signal.is_from_kernel);
  EXPECT_EQ(queue.next().number, 0);
}

}  // namespace
}  // namespace sheaf::cli
