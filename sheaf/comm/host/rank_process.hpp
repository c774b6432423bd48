#pragma once
// Another process of this host. The kernel reports its end through a pidfd,
// whatever the reason, even if child processes of it live on.

#include <sys/types.h>

#include "sheaf/comm/network/socket.hpp"

namespace sheaf::comm {

class RankProcess {
 public:
  // Not known if there is no such process, or if the kernel is older than 5.3
  // or forbids it.
  static RankProcess open(pid_t pid);

  RankProcess() = default;
  bool is_known() const { return static_cast<bool>(pidfd_); }
  bool has_ended() const;

 private:
  Socket pidfd_;
};

}  // namespace sheaf::comm
