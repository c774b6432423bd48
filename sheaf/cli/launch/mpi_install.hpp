#pragma once
// Finds the MPI launcher that `sheaf run` uses.

#include <string>
#include <string_view>

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

// The file that a shell would run for `program`; empty if there is none.
std::string find_executable(const std::string& program);

// Throws UsageError, with the reason and a hint, if find_executable does not
// find `program`.
void check_executable(const std::string& program);

std::string this_executable();  // the file of the running program

}  // namespace sheaf::cli
