#pragma once
// mpirun as a child process that does not outlive this process.

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

}  // namespace sheaf::cli
