#pragma once
// The process between mpirun and the program of a rank. It reports to the
// launcher how the program ended, and gives the other ranks time to notice a
// failure before mpirun kills them.

#include <chrono>
#include <string>
#include <vector>

namespace sheaf::cli {

struct WrapperOptions {
  std::vector<std::string> command;
  std::string token;   // token of the launcher's frames; empty: no launcher
  bool relay = false;  // send output in frames, for prefixed lines
  std::chrono::milliseconds grace{3000};
};

// Runs the command and returns the exit code for this process. SIGTERM, SIGINT,
// SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to the program and the
// processes it started. After a failure it waits for the grace period before
// it returns. SIGUSR1 ends the wait; the result is then 0, because the launcher
// has received the report. When the parent dies, the program is killed.
int run_wrapper(const WrapperOptions& options);

// The rank that the MPI launcher or Slurm assigned to this process; 0 if there
// is none.
int rank_from_environment();

}  // namespace sheaf::cli
