#pragma once
// Builds the command line of mpirun from a request. Runs nothing.

#include <string>
#include <vector>

#include "sheaf/cli/launch/mpi_install.hpp"
#include "sheaf/topo/host.hpp"

namespace sheaf::cli {

struct MpiRequest {
  int ranks = 1;
  std::vector<topo::HostSlots> hosts;  // empty: this host, or Slurm's
  std::string rankfile;                // Open MPI only
  bool has_scheduler = false;          // Slurm chooses hosts and cores
  bool is_local = true;                // all ranks are on this host
  int cores = 1;                       // of this host
  bool is_root = false;
  std::string agent;      // starts daemons on other hosts instead of ssh
  std::string interface;  // network interface between hosts
  std::vector<std::string> exports;  // environment variables to export
  std::vector<std::string> extra;    // passed to mpirun unchanged
};

// mpirun and its arguments, without the program. Throws UsageError for requests
// that this MPI does not support.
std::vector<std::string> mpi_command(const MpiInstall& mpi,
                                     const MpiRequest& request);

}  // namespace sheaf::cli
