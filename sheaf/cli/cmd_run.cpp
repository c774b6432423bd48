#include <memory>

#include "sheaf/base/units.hpp"
#include "sheaf/cli/commands.hpp"
#include "sheaf/cli/launch_options.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kFooter =
    "The program and its arguments come last, after -- or without.\n"
    "Examples:\n"
    "  sheaf run -n 4 ./program --its-option\n"
    "  sheaf run --hosts a:2,b:2 --topology 2x2 --prefix -- ./program\n"
    "Exit code: that of the rank that failed first, 128+n for signal n; 4 at\n"
    "the timeout; 2 for a mistake in the command line.\n"
    "Environment: SHEAF_MPIEXEC (mpirun to use), SHEAF_RUN_GRACE (seconds "
    "that\n"
    "other ranks have after a failure), SHEAF_MPIRUN_AGENT (as --agent).";

struct Arguments {
  LaunchOptions launch;
  std::string timeout;
};

void add_behaviour(CLI::App& command, Arguments& arguments) {
  LaunchOptions& launch = arguments.launch;
  command.add_option("--interface", launch.interface,
                     "Network interface between hosts, such as eth0");
  command.add_flag("--prefix", launch.prefix,
                   "Begin each line of output with its rank");
  command.add_option("--timeout", arguments.timeout,
                     "End the run after this time, such as 30s, 5m, 1h");
  command.add_flag("--dry-run", launch.dry_run,
                   "Print the line of mpirun and do nothing");
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "run", "Start a program on several ranks, here or on many hosts");
  command->footer(kFooter);
  command->prefix_command();
  add_launch_options(*command, arguments->launch, /*ranks=*/1);
  add_behaviour(*command, *arguments);
  command->callback([arguments, command] {
    LaunchOptions& launch = arguments->launch;
    launch.command = program_of(*command);
    if (!arguments->timeout.empty())
      launch.timeout = std::chrono::ceil<std::chrono::milliseconds>(
          parse_duration(arguments->timeout));
    throw ExitWith{cli::launch(launch)};
  });
}

}  // namespace sheaf::cli
