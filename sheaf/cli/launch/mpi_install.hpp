#pragma once
// The MPI launcher that `sheaf run` drives.

#include <string>
#include <string_view>

namespace sheaf::cli {

enum class MpiKind { kOpenMpi, kMpich };

struct MpiInstall {
  std::string path;  // of mpirun or mpiexec
  MpiKind kind = MpiKind::kOpenMpi;
  std::string version;  // "4.1.4"; empty when it does not say

  std::string name() const;  // "Open MPI 4.1.4"
};

// SHEAF_MPIEXEC if it is set, else the one sheaf was built with, else mpirun
// or mpiexec on PATH. UsageError when there is none, or one that is neither
// Open MPI nor of MPICH's family.
MpiInstall find_mpi();

// Understands what `path --version` printed.
MpiInstall parse_mpi_version(const std::string& path, std::string_view text);

// The file that a shell would run for `program`; empty when there is none.
std::string find_executable(const std::string& program);

// UsageError, with what is wrong and what to try, unless find_executable
// finds `program`.
void check_executable(const std::string& program);

std::string this_executable();  // the file of the running program

}  // namespace sheaf::cli
