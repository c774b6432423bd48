#pragma once
// The MPI launcher that `sheaf run` uses, and its command line.

#include <string>
#include <string_view>
#include <vector>

#include "sheaf/topo/host_list.hpp"

namespace sheaf::cli {

enum class MpiKind { kOpenMpi, kMpich };

struct MpiInstall {
  std::string path;  // path of mpirun or mpiexec
  MpiKind kind = MpiKind::kOpenMpi;
  std::string version;  // "4.1.4"; empty: unknown

  std::string name() const;  // "Open MPI 4.1.4"
};

// SHEAF_MPIEXEC if it is set, else the launcher that sheaf was built with, else
// mpirun or mpiexec on PATH. Throws UsageError if there is none, or if it is
// neither Open MPI nor a derivative of MPICH.
MpiInstall find_mpi();

// Parses the output of `path --version`.
MpiInstall parse_mpi_version(const std::string& path, std::string_view text);

struct MpiRequest {
  int ranks = 1;
  std::vector<topo::HostSlots> hosts;  // empty: this host, or Slurm's
  std::string rankfile;                // Open MPI only
  bool has_scheduler = false;          // Slurm chooses hosts and cores
  bool is_local = true;                // all ranks are on this host
  int cores = 1;                       // of this host
  bool is_root = false;
  std::string agent;             // starts daemons on other hosts instead of ssh
  bool has_local_agent = false;  // the agent exists on this host only
  std::string interface;         // network interface between hosts
  std::vector<std::string> exports;  // environment variables to export
  std::vector<std::string> extra;    // passed to mpirun unchanged
};

// mpirun and its arguments, without the program. Throws UsageError for requests
// that this MPI does not support.
std::vector<std::string> mpi_command(const MpiInstall& mpi,
                                     const MpiRequest& request);

}  // namespace sheaf::cli
