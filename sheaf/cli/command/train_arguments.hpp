#pragma once
// The options of `sheaf train`, which the command passes on to the ranks.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sheaf::cli {

struct TrainArguments {
  std::string config;
  std::vector<std::string> sets;  // "key=value"
  std::string output;
  std::string plan;
  bool is_resumed = false;
  bool accepts_changes = false;
  bool prints_config = false;
  bool explains = false;
  // The stream and width of the progress line, see base/progress.hpp. Set by
  // the command for its ranks; not an option of the user.
  std::string progress_place;
};

// `arguments` must outlive the command.
void add_train_options(CLI::App& command, TrainArguments& arguments);

// Same, with the options that only ranks have.
void add_train_rank_options(CLI::App& command, TrainArguments& arguments);

// The words of sheaf-torch that run a rank with these arguments; the result of
// parsing them with add_train_rank_options() is `arguments`.
std::vector<std::string> rank_words(const TrainArguments& arguments);

}  // namespace sheaf::cli
