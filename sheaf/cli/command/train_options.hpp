#pragma once
// The options of `sheaf train`, which it passes on to the ranks it starts.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sheaf::cli {

struct TrainArguments {
  std::string config;
  std::vector<std::string> sets;
  std::string output;
  std::string plan;
  bool is_resumed = false;
  bool accepts_changes = false;
  bool prints_config = false;
  bool explains = false;
};

// The arguments must outlive the command.
void add_train_options(CLI::App& command, TrainArguments& arguments);

// The words of a command line that add_train_options() reads as these
// arguments.
std::vector<std::string> train_words(const TrainArguments& arguments);

}  // namespace sheaf::cli
