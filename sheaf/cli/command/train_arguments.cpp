#include "sheaf/cli/command/train_arguments.hpp"

namespace sheaf::cli {

void add_train_options(CLI::App& command, TrainArguments& arguments) {
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

void add_train_rank_options(CLI::App& command, TrainArguments& arguments) {
  add_train_options(command, arguments);
  command.add_option("--progress-place", arguments.progress_place);
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
  if (!arguments.progress_place.empty())
    words.insert(words.end(), {"--progress-place", arguments.progress_place});
  return words;
}

}  // namespace sheaf::cli
