// sheaf sweep: runs `sheaf train` for every combination of settings.
#include <algorithm>
#include <memory>

#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/process.hpp"
#include "sheaf/cli/sweep/sweep.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kSweepFooter =
    "Examples:\n"
    "  sheaf sweep examples/dad_sweep.yaml --dry-run\n"
    "  sheaf sweep examples/dad_sweep.yaml\n"
    "Finished jobs are not run again; interrupted jobs resume from their\n"
    "latest checkpoint. Exit code: 0 if every job finished; 1 if one failed;\n"
    "128+n after signal n; 2 for an invalid command line or jobs file.\n"
    "docs/reference/sweep.md documents the jobs file.";

struct SweepArguments {
  std::string file;
  std::string output;
  bool is_dry = false;
  bool as_json = false;
  SweepOptions run;
};

void add_options(CLI::App& command, SweepArguments& arguments) {
  command.add_option("JOBS", arguments.file, "Jobs file, in YAML")->required();
  command.add_option("--output", arguments.output,
                     "Parent folder of the jobs' folders; overrides the "
                     "file's `output`");
  auto* dry = command.add_flag("--dry-run", arguments.is_dry,
                               "List the jobs without running them");
  command
      .add_flag("--json", arguments.as_json, "Print one JSON object per row")
      ->needs(dry);
  command.add_flag("--stop-on-error", arguments.run.stops_on_error,
                   "Stop after the first job that fails");
}

bool has_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands({});
  return std::any_of(
      commands.begin(), commands.end(),
      [&](const CLI::App* one) { return one->get_name() == name; });
}

void sweep(const CLI::App& app, SweepArguments& arguments) {
  SweepPlan plan = plan_sweep(arguments.file, arguments.output);
  if (arguments.is_dry) {
    print_sweep(plan, arguments.as_json);
    return;
  }
  std::vector<std::string> again{"sheaf", "sweep", arguments.file};
  if (!arguments.output.empty())
    again.insert(again.end(), {"--output", arguments.output});
  arguments.run.again = shell_quote(again);
  arguments.run.has_report = has_command(app, "report");
  throw ExitWith{run_sweep(std::move(plan), arguments.run)};
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command = app.add_subcommand(
      "sweep",
      "Train with every combination of settings, then compare the runs");
  command->footer(kSweepFooter);
  add_options(*command, *arguments);
  command->callback([arguments, &app] { sweep(app, *arguments); });
}

}  // namespace sheaf::cli
