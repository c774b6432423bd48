#pragma once
// The commands of sheaf-torch, which `sheaf` starts; users do not call it.

#include <CLI/CLI.hpp>

namespace sheaf::cli {

void add_cast_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_sweep_plan_command(CLI::App& app);
void add_trace_rank_command(CLI::App& app);
void add_train_rank_command(CLI::App& app);

}  // namespace sheaf::cli
