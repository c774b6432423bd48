#pragma once
// The environment variables that the launcher sets for the ranks.

#include <string>
#include <vector>

#include "sheaf/cli/launch/launcher.hpp"

namespace sheaf::cli {

// "NAME=value": the job's name and its secret, which are new unless the user
// has set them; --topology, merged into SHEAF_OPTIONS; --interface; and for
// --encrypt, where the ranks meet.
std::vector<std::string> rank_environment(const LaunchOptions& options,
                                          const RankPlacement& place);

// The names of the variables to pass on to the ranks: those, and from this
// process's environment PATH, LD_LIBRARY_PATH and SHEAF_*.
std::vector<std::string> names_to_export(
    const std::vector<std::string>& environment);

// As in a shell command. The secret is left out.
std::string text_of_environment(const std::vector<std::string>& environment);

// The value of a variable of this process; empty if it is not set.
std::string variable(const char* name);

}  // namespace sheaf::cli
