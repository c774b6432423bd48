#pragma once
// The options of commands that start ranks. `launch` must outlive `command`.

#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launcher.hpp"

namespace sheaf::cli {

// Adds the options for the number of ranks and their hosts. `ranks` is the
// default that the help shows if neither -n nor hosts are given.
void add_host_options(CLI::App& command, LaunchOptions& launch, int ranks);

// The same, and --rankfile and --mpi-arg for the exact placement.
void add_launch_options(CLI::App& command, LaunchOptions& launch, int ranks);

// --interface, --timeout, --dry-run.
void add_run_options(CLI::App& command, LaunchOptions& launch);

}  // namespace sheaf::cli
