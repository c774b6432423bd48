#include "sheaf/cli/launch/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace sheaf::cli {
namespace {

TEST(ShellQuote, QuotesWhatAShellWouldTouch) {
  EXPECT_EQ(shell_quote({"a-b", "c d", "", "it's", "$x"}),
            R"(a-b 'c d' '' 'it'\''s' '$x')");
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
