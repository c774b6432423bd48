#pragma once
// mpirun as a child process that does not outlive this process, and the rank
// wrappers below it.

#include <sys/types.h>

#include <string>
#include <vector>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

struct MpirunProcess {
  pid_t pid = -1;
  Fd out;  // its standard output and error, nonblocking
  Fd err;
};

struct MpirunOptions {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value"
  bool shares_group = false;  // stay in our process group instead of a new one
};

// Starts mpirun. It inherits standard input, and gets SIGTERM when this process
// dies.
MpirunProcess start_mpirun(const MpirunOptions& options,
                           const SignalQueue& signals);

// The wrappers on this host among the descendants of the process `launcher`,
// which is mpirun or mpiexec.
std::vector<pid_t> wrappers_below(pid_t launcher);

}  // namespace sheaf::cli
