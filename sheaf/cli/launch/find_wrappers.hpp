#pragma once
// The ranks' wrappers that run on this host.

#include <sys/types.h>

#include <vector>

namespace sheaf::cli {

// Those below the process `launcher`, which is mpirun or one of its like.
std::vector<pid_t> wrappers_below(pid_t launcher);

}  // namespace sheaf::cli
