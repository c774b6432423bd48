#pragma once
// All combinations of a sweep's settings, each with a name.

#include "sheaf/cli/torch/sweep_file.hpp"

namespace sheaf::cli {

struct GridJob {
  std::string name;  // folder name
  int ranks = 1;
  std::vector<Setting> settings;

  std::vector<std::string> overrides() const;  // "key=value", for --set
};

// The jobs in the order of the axes, without the combinations to skip. Throws
// UsageError if the name pattern has unknown parts or gives two jobs the same
// name, or if a skip matches no job.
std::vector<GridJob> make_grid(const SweepFile& file);

}  // namespace sheaf::cli
