#include "sheaf/comm/host/rank_process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sheaf::comm {
namespace {

TEST(RankProcess, EndsWithItsProcess) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  const RankProcess process = RankProcess::open(child);
  if (!process.is_known()) GTEST_SKIP() << "this kernel has no pidfd_open()";
  EXPECT_FALSE(process.has_ended());
  ::kill(child, SIGSTOP);  // not an end
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_FALSE(process.has_ended());
  ::kill(child, SIGKILL);
  ::waitid(P_PID, static_cast<id_t>(child), nullptr, WEXITED | WNOWAIT);
  EXPECT_TRUE(process.has_ended());  // before its parent has waited for it
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(process.has_ended());
}

TEST(RankProcess, AProcessThatDoesNotExistIsNotKnown) {
  EXPECT_FALSE(RankProcess::open(999999999).is_known());
  EXPECT_FALSE(RankProcess().is_known());
}

}  // namespace
}  // namespace sheaf::comm
