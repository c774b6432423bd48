#pragma once
// The program of one rank as a child process that does not outlive its wrapper.

#include <sys/types.h>

#include <string>
#include <vector>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

struct RankChildOptions {
  std::vector<std::string> command;
  bool relay = false;     // the output is read from out() and err()
  bool has_input = true;  // false: standard input is empty
};

// The program runs in a process group led by a guard, a process that only waits
// for the end of the wrapper. When the wrapper dies for any reason, the guard
// kills the group: the program and all processes it started.
class RankChild {
 public:
  // Starts the command. If that fails, start_errno() is the reason, and the
  // child exits at once.
  RankChild(const RankChildOptions& options, const SignalQueue& signals);
  ~RankChild();
  RankChild(const RankChild&) = delete;
  RankChild& operator=(const RankChild&) = delete;

  pid_t pid() const { return pid_; }
  Fd& out() { return out_; }
  Fd& err() { return err_; }
  int start_errno() const { return start_errno_; }

  bool has_ended() const;  // does not reap it, so its pid is not reused
  void signal_group(int signal) const;  // the guard reacts only to SIGKILL

  // Kills the remaining group and returns the program's wait status.
  int reap();

 private:
  void start_guard();
  void start_program(const RankChildOptions& options,
                     const SignalQueue& signals);

  pid_t pid_ = -1;
  pid_t guard_ = -1;
  bool is_reaped_ = false;
  int start_errno_ = 0;
  Fd out_;
  Fd err_;
  Fd guard_line_;
};

}  // namespace sheaf::cli
