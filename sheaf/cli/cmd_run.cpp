#include <memory>

#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launcher.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kRunFooter =
    "The program and its arguments come last, optionally after --.\n"
    "Examples:\n"
    "  sheaf run -n 4 ./program --its-option\n"
    "  sheaf run --hosts a:2,b:2 --topology 2x2 --prefix -- ./program\n"
    "Exit code: that of the rank that failed first; 128+n for signal n; 4 on\n"
    "timeout; 2 for an invalid command line.\n"
    "Environment: SHEAF_MPIEXEC (mpirun to use), SHEAF_RUN_GRACE (seconds\n"
    "until the other ranks are stopped after a failure), SHEAF_MPIRUN_AGENT\n"
    "(same as --agent).";

}  // namespace

void add_run_command(CLI::App& app) {
  auto launch = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "Start a program on several ranks, on this or other hosts");
  command->footer(kRunFooter);
  command->prefix_command();
  add_launch_options(*command, *launch, /*ranks=*/1);
  add_run_options(*command, *launch);
  command->add_flag("--prefix", launch->prefix,
                    "Prefix each line of output with its rank");
  command->callback([launch, command] {
    launch->command = program_of(*command);
    throw ExitWith{cli::launch(*launch)};
  });
}

}  // namespace sheaf::cli
