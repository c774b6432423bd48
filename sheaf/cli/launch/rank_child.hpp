#pragma once
// The program of one rank as a child process that cannot outlive its wrapper.

#include <sys/types.h>

#include <string>
#include <vector>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

struct RankChildOptions {
  std::vector<std::string> command;
  bool relay = false;     // its output is read from out() and err()
  bool has_input = true;  // false: its standard input is empty
};

// A guard, a process that does nothing but wait for the wrapper's end, leads a
// process group, and the program runs in it. When the wrapper dies, in
// whatever way, the guard kills the group: the program and all it has started.
class RankChild {
 public:
  // Starts the command. When it cannot be, start_errno() says why, and the
  // child is one that ends at once.
  RankChild(const RankChildOptions& options, const SignalQueue& signals);
  ~RankChild();
  RankChild(const RankChild&) = delete;
  RankChild& operator=(const RankChild&) = delete;

  pid_t pid() const { return pid_; }
  Fd& out() { return out_; }
  Fd& err() { return err_; }
  int start_errno() const { return start_errno_; }

  bool has_ended() const;  // leaves it as a zombie, so its number stays taken
  void signal_group(int signal) const;  // the guard heeds only SIGKILL

  // Kills what is left of the group, then gives the program's wait status.
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
