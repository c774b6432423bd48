#pragma once
// Finds the rank wrappers that run on this host.

#include <sys/types.h>

#include <vector>

namespace sheaf::cli {

// The wrappers among the descendants of the process `launcher`, which is mpirun
// or mpiexec.
std::vector<pid_t> wrappers_below(pid_t launcher);

}  // namespace sheaf::cli
