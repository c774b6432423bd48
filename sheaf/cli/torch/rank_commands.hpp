#pragma once
// The commands of sheaf-torch, which `sheaf` starts; users do not call it.

#include <CLI/CLI.hpp>
#include <string>

namespace sheaf::cli {

void add_cast_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_sweep_plan_command(CLI::App& app);
void add_trace_rank_command(CLI::App& app);
void add_train_rank_command(CLI::App& app);

// The plan's file name as an argument of --set. It is quoted, because the value
// is YAML and a file name may contain any character.
inline std::string plan_setting(const std::string& file) {
  std::string quoted;
  for (const char c : file) quoted += c == '\'' ? "''" : std::string(1, c);
  return "plan='" + quoted + "'";
}

}  // namespace sheaf::cli
