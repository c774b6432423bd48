#pragma once
// One run of mpirun, watched until nothing of it is left.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/cli/launch/mpi_install.hpp"

namespace sheaf::cli {

struct JobOptions {
  std::vector<std::string> command;      // mpirun and all that follows
  std::vector<std::string> environment;  // "NAME=value"
  std::string token;                     // of the wrappers' frames
  int ranks = 1;
  bool is_local = false;                  // all of them on this host
  std::chrono::milliseconds grace{3000};  // from the first failure to the end
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<std::chrono::milliseconds> stop_time;  // see LaunchOptions
  bool prefix = false;
  MpiKind mpi = MpiKind::kOpenMpi;
};

// Passes output on, says on standard error which ranks failed and how, and
// gives the exit code, as launch() does.
int run_job(const JobOptions& options);

}  // namespace sheaf::cli
