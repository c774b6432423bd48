#pragma once
// What stands between mpirun and the program of a rank. It tells the launcher
// how the program ended, and gives the other ranks time to notice a failure
// before mpirun kills them.

#include <chrono>
#include <string>
#include <vector>

namespace sheaf::cli {

struct WrapperOptions {
  std::vector<std::string> command;
  std::string token;   // of the launcher's frames; empty: there is no launcher
  bool relay = false;  // the output travels in frames, for prefixed lines
  std::chrono::milliseconds grace{3000};
};

// Runs the command to its end and gives the exit code for this process.
// SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go on to the program
// and what it has started. After a failure it waits for the grace before it
// returns; SIGUSR1 cuts that short, and then the code is 0, because the
// launcher knows already. When the parent dies, the program is killed.
int run_wrapper(const WrapperOptions& options);

// The number that the MPI launcher or Slurm gave this process; 0 without one.
int rank_from_environment();

}  // namespace sheaf::cli
