// sheaf train: starts sheaf-torch on several ranks.
#include <memory>

#include "sheaf/base/progress.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/cli/launch/program.hpp"

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

struct TrainArguments {
  LaunchOptions launch;
  std::string config;
  std::vector<std::string> sets;
  std::string output;
  std::string plan;
  bool is_resumed = false;
  bool accepts_changes = false;
  bool prints_config = false;
  bool explains = false;
};

void add_training_options(CLI::App& command, TrainArguments& arguments) {
  command.add_option("CONFIG", arguments.config, "Config of the run, in YAML")
      ->required();
  command
      .add_option("--set", arguments.sets,
                  "key=value, overrides the config, such as epochs=3; may be "
                  "repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_option("--output", arguments.output,
                     "Folder of the run (default: output.folder of the config, "
                     "or runs/<name>-<number>)");
  command.add_option("--plan", arguments.plan,
                     "Plan file, written by sheaf plan: precision and exchange "
                     "of each layer; overrides the config's plan");
  command.add_flag("--resume", arguments.is_resumed,
                   "Resume from the latest checkpoint in the folder");
  command.add_flag("--accept-changes", arguments.accepts_changes,
                   "With --resume: accept changed settings even if they "
                   "change the result");
  command.add_flag("--print-config", arguments.prints_config,
                   "Print the complete config, including defaults");
  command.add_flag("--explain", arguments.explains,
                   "Run one step and print the data it exchanges, by layer");
}

std::vector<std::string> rank_words(const TrainArguments& arguments) {
  std::vector<std::string> words{"train", arguments.config};
  for (const std::string& set : arguments.sets)
    words.insert(words.end(), {"--set", set});
  if (!arguments.plan.empty())
    words.insert(words.end(), {"--plan", arguments.plan});
  if (!arguments.output.empty())
    words.insert(words.end(), {"--output", arguments.output});
  if (arguments.is_resumed) words.push_back("--resume");
  if (arguments.accepts_changes) words.push_back("--accept-changes");
  if (arguments.prints_config) words.push_back("--print-config");
  if (arguments.explains) words.push_back("--explain");
  const std::string place = progress_place();
  if (!place.empty()) words.insert(words.end(), {"--progress-place", place});
  return words;
}

bool is_alone(const LaunchOptions& launch) {
  return launch.ranks == 1 && launch.hosts.empty() && launch.hostfile.empty() &&
         !launch.dry_run;
}

void train(TrainArguments& arguments) {
  LaunchOptions& launch = arguments.launch;
  const std::vector<std::string> words = rank_words(arguments);
  if (arguments.prints_config || is_alone(launch)) become_torch_program(words);
  launch.command = {torch_program()};
  launch.command.insert(launch.command.end(), words.begin(), words.end());
  launch.stop_time = kStopTime;
  throw ExitWith{cli::launch(launch)};
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a network from a config file, on several ranks");
  command->footer(kTrainFooter);
  add_training_options(*command, *arguments);
  add_host_options(*command, arguments->launch, /*ranks=*/1);
  add_run_options(*command, arguments->launch);
  command->callback([arguments] { train(*arguments); });
}

}  // namespace sheaf::cli
