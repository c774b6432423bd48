#pragma once
// Runs mpirun as a child process, which does not outlive this process, and
// supervises it until all its processes have ended.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/cli/launch/mpirun.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

struct MpirunProcess {
  pid_t pid = -1;
  Fd out;  // its standard output and error, nonblocking
  Fd err;
};

struct MpirunOptions {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value", or "NAME" to unset it
  bool shares_group = false;  // stay in our process group instead of a new one
};

// Starts mpirun. It inherits standard input, and gets SIGTERM when this process
// dies.
MpirunProcess start_mpirun(const MpirunOptions& options,
                           const SignalQueue& signals);

// The wrappers on this host among the descendants of the process `launcher`,
// which is mpirun or mpiexec.
std::vector<pid_t> wrappers_below(pid_t launcher);

struct JobOptions {
  std::vector<std::string> command;      // mpirun and its arguments
  std::vector<std::string> environment;  // "NAME=value"
  std::string token;                     // token of the wrappers' frames
  int ranks = 1;
  bool is_local = false;                  // all ranks are on this host
  std::chrono::milliseconds grace{3000};  // from the first failure to SIGTERM
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<std::chrono::milliseconds> stop_time;  // see LaunchOptions
  bool prefix = false;
  MpiKind mpi = MpiKind::kOpenMpi;
};

// Forwards output, reports failed ranks on standard error, and returns the exit
// code as launch() does.
int run_job(const JobOptions& options);

}  // namespace sheaf::cli
