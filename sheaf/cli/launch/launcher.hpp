#pragma once
// Starts the ranks of a program; `sheaf run` and the commands that start
// themselves on several ranks use it.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/cli/launch/mpi_args.hpp"

namespace sheaf::cli {

struct LaunchOptions {
  std::vector<std::string> command;  // the program and its arguments
  int ranks = 0;      // 0: as many as hosts, rank file or Slurm give, or 1
  std::string hosts;  // "a:2,b:2"; at most one of these three
  std::string hostfile;
  std::string rankfile;
  std::string topology;  // "4x3"; goes to the ranks in SHEAF_OPTIONS
  bool prefix = false;   // lines of output begin with "[rank] "
  bool verbose = false;  // prints the line of mpirun first
  bool dry_run = false;  // prints it, and does nothing else
  std::optional<std::chrono::milliseconds> timeout;
  // When this process is told to end, the ranks get SIGUSR1 first, and so long
  // to end by themselves. Not given: they are ended at once.
  std::optional<std::chrono::milliseconds> stop_time;
  std::string agent;  // else SHEAF_MPIRUN_AGENT
  std::string interface;
  std::vector<std::string> mpi_args;
  std::string executable;  // that has `rank-exec`; empty: the running one
};

// Runs the command on all ranks and gives the exit code of the rank that
// failed first, or 0; what failed is said on standard error. 128 + n when
// signal n ended it (SIGINT, SIGTERM, SIGHUP). Standard input goes to rank 0.
// UsageError before anything starts; TimeoutError when the time is over. No
// process of the run is left in any case, not even when this one is killed.
// It must be called from the main thread, which blocks meanwhile.
int launch(const LaunchOptions& options);

// What launch would do, without doing it.
struct LaunchPlan {
  MpiRequest request;
  std::vector<std::string> command;      // mpirun, its arguments, the program
  std::vector<std::string> environment;  // "NAME=value", to be set
  std::string token;                     // see frame.hpp
  std::chrono::milliseconds grace{0};
};
LaunchPlan plan_launch(const LaunchOptions& options, const MpiInstall& mpi);

}  // namespace sheaf::cli
