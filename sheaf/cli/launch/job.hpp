#pragma once
// Runs mpirun and supervises it until all its processes have ended.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/cli/launch/mpirun.hpp"

namespace sheaf::cli {

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
