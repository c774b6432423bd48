#pragma once
// How many ranks a run has, and on which hosts.

#include <optional>

#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/topo/dims.hpp"

namespace sheaf::cli {

struct Placement {
  MpiRequest request;  // ranks, hosts, rank file, cores; the rest is open
  std::optional<topo::Dims> dims;
};

// Reads host lists, host files and rank files, and checks that all fits:
// UsageError names the two numbers that do not, or the faults of a rank file.
Placement place_ranks(const LaunchOptions& options);

}  // namespace sheaf::cli
