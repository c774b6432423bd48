#pragma once
// The commands of `sheaf`. Each file cmd_<name>.cpp defines one function
// add_<name>_command, which adds a subcommand and its callback to the program.
// The callback throws on failure; ExitWith passes on a code of its own.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sheaf::cli {

void add_bench_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_dump_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_plot_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_rank_exec_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_sweep_command(CLI::App& app);
void add_topo_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_train_command(CLI::App& app);

// Ends the program with `code`, without a message.
struct ExitWith {
  int code;
};

// What follows the options of a command that has prefix_command(): a program
// and its arguments, with or without "--" in front. UsageError when the first
// word looks like an option.
std::vector<std::string> program_of(const CLI::App& command);

// Reads the command line, runs the command, and gives the exit code: that of
// sheaf::exit_code for exceptions, whose message goes to standard error, and
// 2 for a command line that cannot be understood.
int run_cli(int argc, const char* const* argv);

}  // namespace sheaf::cli
