// sheaf train: starts sheaf-torch on several ranks.
#include <memory>

#include "sheaf/base/progress.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/command/train_arguments.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

// Time that ranks have to finish their step and save a checkpoint after a stop
// signal; then they are stopped.
constexpr std::chrono::seconds kStopTime{60};

constexpr const char* kTrainFooter =
    "Examples:\n"
    "  sheaf train examples/fashion_mnist.yaml -n 2\n"
    "  sheaf train a.yaml -n 2 --set optimizer.learning_rate=0.1\n"
    "  sheaf train a.yaml -n 2 --plan plan.json\n"
    "  sheaf train a.yaml -n 4 --resume --output runs/a-001\n"
    "On SIGTERM or Ctrl-C the run saves a checkpoint and stops. Exit code:\n"
    "that of the rank that failed first; 128+n after signal n; 2 for an\n"
    "invalid command line or config; 6 if a loss or gradient is not finite.\n"
    "docs/reference/config.md documents every config key.";

struct TrainCommand {
  LaunchOptions launch;
  TrainArguments training;
};

bool is_alone(const LaunchOptions& launch) {
  return launch.ranks == 1 && launch.hosts.empty() && launch.hostfile.empty() &&
         !launch.dry_run;
}

void train(TrainCommand& arguments) {
  LaunchOptions& launch = arguments.launch;
  arguments.training.progress_place = progress_place();
  const std::vector<std::string> words = rank_words(arguments.training);
  if (arguments.training.prints_config || is_alone(launch))
    become_torch_program(words);
  launch.command = {torch_program()};
  launch.command.insert(launch.command.end(), words.begin(), words.end());
  launch.stop_time = kStopTime;
  throw ExitWith{cli::launch(launch)};
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainCommand>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a network from a config file, on several ranks");
  command->footer(kTrainFooter);
  add_train_options(*command, arguments->training);
  add_host_options(*command, arguments->launch, /*ranks=*/1);
  add_run_options(*command, arguments->launch);
  command->callback([arguments] { train(*arguments); });
}

}  // namespace sheaf::cli
