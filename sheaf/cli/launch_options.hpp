#pragma once
// The options of commands that start ranks.

#include "sheaf/cli/commands.hpp"
#include "sheaf/cli/launcher.hpp"

namespace sheaf::cli {

// `launch` must outlive the command. `ranks` says how many ranks there are
// when neither -n nor hosts tell.
void add_launch_options(CLI::App& command, LaunchOptions& launch, int ranks);

}  // namespace sheaf::cli
