#pragma once
// The options of `sheaf bench` on the command line.

#include <string>
#include <vector>

#include "sheaf/cli/bench/bench_plan.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launcher.hpp"

namespace sheaf::cli {

struct BenchArguments {
  LaunchOptions launch;
  BenchArgs bench;
};

// `arguments` must outlive the command.
void add_bench_options(CLI::App& command, BenchArguments& arguments);

// The command-line arguments that reproduce the given options; the options that
// only concern the launch of ranks are included on request.
std::vector<std::string> bench_words(const CLI::App& command,
                                     bool with_launch_options);

}  // namespace sheaf::cli
