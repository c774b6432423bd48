#pragma once
// The commands of `sheaf`. Each file cmd_<name>.cpp defines one function
// add_<name>_command, which adds a subcommand and its callback to the program.
// The callback throws on failure; it throws ExitWith to set the exit code
// without printing a message.

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

// sheaf plan compare: compares the predicted step with a measured one.
void add_compare_command(CLI::App& app);

// Ends the program with `code`, without a message.
struct ExitWith {
  int code;
};

// Returns the program and its arguments that follow the options of a command
// with prefix_command(). A leading "--" is optional and is removed. Throws
// UsageError if the first word looks like an option.
std::vector<std::string> program_of(const CLI::App& command);

// Parses the command line, runs the command, and returns the exit code. An
// exception is printed to standard error and mapped by sheaf::exit_code; an
// invalid command line returns 2.
int run_cli(int argc, const char* const* argv);

}  // namespace sheaf::cli
