#pragma once
// Starts the ranks of a program, for `sheaf run` and for the commands that run
// on several ranks.

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/cli/launch/mpirun.hpp"
#include "sheaf/cli/launch/secret_agent.hpp"
#include "sheaf/topo/dims.hpp"

namespace sheaf::cli {

struct LaunchOptions {
  std::vector<std::string> command;  // the program and its arguments
  int ranks = 0;      // 0: from the hosts, the rank file or Slurm, else 1
  std::string hosts;  // "a:2,b:2"; not together with hostfile
  std::string hostfile;
  std::string rankfile;
  std::string topology;  // "4x3"; passed to the ranks in SHEAF_OPTIONS
  bool prefix = false;   // prefix lines of output with "[rank] "
  bool verbose = false;  // print the mpirun command line first
  bool dry_run = false;  // only print the mpirun command line
  std::optional<std::chrono::milliseconds> timeout;
  // After a stop signal the ranks get SIGUSR1 and this much time to end by
  // themselves. Not set: they are stopped at once.
  std::optional<std::chrono::milliseconds> stop_time;
  std::string agent;  // empty: SHEAF_MPIRUN_AGENT
  std::string interface;
  bool encrypts = false;  // connections between hosts, by TCP instead of MPI
  std::vector<std::string> mpi_args;
  std::string executable;  // program with `rank-exec`; empty: this program
};

// Runs the command on all ranks and returns the exit code of the rank that
// failed first, or 0; failures are reported on standard error. Returns 128 + n
// if signal n (SIGINT, SIGTERM, SIGHUP) stopped the run. Standard input goes to
// rank 0. Throws UsageError before anything starts, and TimeoutError after the
// timeout. No process of the run is left behind, even if this process is
// killed. Must be called from the main thread; it blocks until the run ends.
int launch(const LaunchOptions& options);

// The command that launch() would run.
struct LaunchPlan {
  MpiRequest request;
  // Set if ranks on other hosts need the secret; must outlive the run.
  std::unique_ptr<SecretAgent> agent;
  std::vector<std::string> command;      // mpirun, its arguments, the program
  std::vector<std::string> environment;  // "NAME=value", or "NAME" to unset it
  std::string token;                     // see frame.hpp
  std::chrono::milliseconds grace{0};
};
LaunchPlan plan_launch(const LaunchOptions& options, const MpiInstall& mpi);

// The number of ranks of a run, and their hosts.
struct RankPlacement {
  MpiRequest request;  // only ranks, hosts, rank file and cores are set
  std::optional<topo::Dims> dims;
};

// Reads host lists, host files and rank files, and checks that they fit the
// number of ranks. Throws UsageError with the two conflicting numbers, or with
// the faults of the rank file.
RankPlacement place_ranks(const LaunchOptions& options);

// The environment variables that the launcher sets for the ranks.

// "NAME=value": the job's name and its secret, which are new unless the user
// has set them; --topology, merged into SHEAF_OPTIONS; --interface; and for
// --encrypt, where the ranks meet.
std::vector<std::string> rank_environment(const LaunchOptions& options,
                                          const RankPlacement& place);

// The names of the variables to pass on to the ranks: those, and from this
// process's environment PATH, LD_LIBRARY_PATH and SHEAF_*.
std::vector<std::string> names_to_export(
    const std::vector<std::string>& environment);

// As in a shell command. The secret is left out.
std::string text_of_environment(const std::vector<std::string>& environment);

// The value of a variable of this process; empty if it is not set.
std::string variable(const char* name);

// The options of commands that start ranks; `launch` must outlive `command`.

// Adds the options for the number of ranks and their hosts. `ranks` is the
// default that the help shows if neither -n nor hosts are given.
void add_host_options(CLI::App& command, LaunchOptions& launch, int ranks);

// The same, and --rankfile and --mpi-arg for the exact placement.
void add_launch_options(CLI::App& command, LaunchOptions& launch, int ranks);

// --interface, --timeout, --dry-run.
void add_run_options(CLI::App& command, LaunchOptions& launch);

}  // namespace sheaf::cli
