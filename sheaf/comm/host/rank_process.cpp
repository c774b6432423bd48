#include "sheaf/comm/host/rank_process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace sheaf::comm {

RankProcess RankProcess::open(pid_t pid) {
  RankProcess process;
  process.pidfd_ = Socket(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return process;
}

bool RankProcess::has_ended() const {
  pollfd entry{pidfd_.fd(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace sheaf::comm
