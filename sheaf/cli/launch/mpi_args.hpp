#pragma once
// The command line of mpirun, made from what is asked for. Runs nothing.

#include <string>
#include <vector>

#include "sheaf/cli/launch/mpi_install.hpp"
#include "sheaf/topo/host_list.hpp"

namespace sheaf::cli {

struct MpiRequest {
  int ranks = 1;
  std::vector<topo::HostSlots> hosts;  // empty: this host, or Slurm's
  std::string rankfile;                // Open MPI only
  bool has_scheduler = false;          // it chooses hosts and cores
  bool is_local = true;                // all ranks are on this host
  int cores = 1;                       // of this host
  bool is_root = false;
  std::string agent;      // starts the daemons on other hosts in place of ssh
  std::string interface;  // network interface between hosts
  std::vector<std::string> exports;  // names of variables for all hosts
  std::vector<std::string> extra;    // for mpirun, as they are
};

// mpirun and its arguments, up to the program. UsageError for what this MPI
// cannot do.
std::vector<std::string> mpi_command(const MpiInstall& mpi,
                                     const MpiRequest& request);

}  // namespace sheaf::cli
