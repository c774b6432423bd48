// sheaf train: starts sheaf-torch on several ranks.
#include <memory>

#include "sheaf/cli/bench/progress_line.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launch_options.hpp"
#include "sheaf/cli/launch/torch_program.hpp"

namespace sheaf::cli {
namespace {

// What ranks have to finish their step and save, before they are ended.
constexpr std::chrono::seconds kStopTime{60};

constexpr const char* kTrainFooter =
    "Examples:\n"
    "  sheaf train examples/fashion_mnist.yaml -n 2\n"
    "  sheaf train a.yaml -n 2 --set optimizer.learning_rate=0.1\n"
    "  sheaf train a.yaml -n 2 --plan plan.json\n"
    "  sheaf train a.yaml -n 4 --resume --output runs/a-001\n"
    "SIGTERM and Ctrl-C save a checkpoint first. Exit code: that of the rank\n"
    "that failed first; 128+n after signal n; 2 for a mistake in the command\n"
    "line or the configuration; 6 when a loss or gradient is not finite.\n"
    "docs/train.md documents every key of the configuration.";

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
  command
      .add_option("CONFIG", arguments.config,
                  "Configuration of the run, in YAML")
      ->required();
  command
      .add_option("--set", arguments.sets,
                  "key=value in place of the file's, such as epochs=3; may be "
                  "given many times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_option("--output", arguments.output,
                     "Folder of the run; else output.folder, or "
                     "runs/<name>-<number>");
  command.add_option("--plan", arguments.plan,
                     "File with the precision of each layer, as sheaf plan "
                     "writes it; overrides the configuration's plan");
  command.add_flag("--resume", arguments.is_resumed,
                   "Go on from the folder's latest checkpoint");
  command.add_flag("--accept-changes", arguments.accepts_changes,
                   "With --resume: accept settings that differ from those "
                   "the run began with and change the result");
  command.add_flag("--print-config", arguments.prints_config,
                   "Print the complete configuration, with defaults");
  command.add_flag("--explain", arguments.explains,
                   "Make one step and print what it exchanges, by layer");
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
      "train", "Train a network as a file describes, on several ranks");
  command->footer(kTrainFooter);
  add_training_options(*command, *arguments);
  add_host_options(*command, arguments->launch, /*ranks=*/1);
  add_run_options(*command, arguments->launch);
  command->callback([arguments] { train(*arguments); });
}

}  // namespace sheaf::cli
