#pragma once
// The options of commands that start ranks. `launch` must outlive the command.

#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launcher.hpp"

namespace sheaf::cli {

// How many ranks, and on which hosts. `ranks` says how many there are when
// neither -n nor hosts tell.
void add_host_options(CLI::App& command, LaunchOptions& launch, int ranks);

// Those, and where each rank goes to the last detail.
void add_launch_options(CLI::App& command, LaunchOptions& launch, int ranks);

// --interface, --timeout, --dry-run.
void add_run_options(CLI::App& command, LaunchOptions& launch);

}  // namespace sheaf::cli
