#pragma once
// Every combination of a sweep's settings, with a name for each.

#include "sheaf/cli/torch/sweep_file.hpp"

namespace sheaf::cli {

struct GridJob {
  std::string name;  // of its folder
  int ranks = 1;
  std::vector<Setting> settings;

  std::vector<std::string> overrides() const;  // "key=value", as --set takes
};

// In the order of the axes, less the combinations to skip. UsageError for a
// name pattern with unknown parts or that gives a name twice, and for a skip
// that leaves nothing out.
std::vector<GridJob> make_grid(const SweepFile& file);

}  // namespace sheaf::cli
