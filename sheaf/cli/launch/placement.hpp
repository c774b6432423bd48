#pragma once
// Determines the number of ranks of a run and their hosts.

#include <optional>

#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/topo/dims.hpp"

namespace sheaf::cli {

struct Placement {
  MpiRequest request;  // only ranks, hosts, rank file and cores are set
  std::optional<topo::Dims> dims;
};

// Reads host lists, host files and rank files, and checks that they fit the
// number of ranks. Throws UsageError with the two conflicting numbers, or with
// the faults of the rank file.
Placement place_ranks(const LaunchOptions& options);

}  // namespace sheaf::cli
