#pragma once
// mpirun as a child process that cannot outlive this one.

#include <sys/types.h>

#include <string>
#include <vector>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

struct MpirunProcess {
  pid_t pid = -1;
  Fd out;  // its standard output and error, to be read without blocking
  Fd err;
};

struct MpirunOptions {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value"
  bool shares_group = false;  // else it leads a process group of its own
};

// Standard input is ours. SIGTERM comes to it when this process dies.
MpirunProcess start_mpirun(const MpirunOptions& options,
                           const SignalQueue& signals);

}  // namespace sheaf::cli
