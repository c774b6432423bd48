#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/rank_wrapper.hpp"

namespace sheaf::cli {
namespace {

struct RankExecArguments {
  WrapperOptions options;
  int grace_ms = 3000;
};

}  // namespace

void add_rank_exec_command(CLI::App& app) {
  auto arguments = std::make_shared<RankExecArguments>();
  CLI::App* command = app.add_subcommand(
      "rank-exec", "Run the program of one rank; `sheaf run` starts it");
  command->group("");  // internal command: hidden from the help
  command->prefix_command();
  command->add_option("--token", arguments->options.token);
  command->add_option("--grace-ms", arguments->grace_ms);
  command->add_flag("--relay", arguments->options.relay);
  command->callback([arguments, command] {
    arguments->options.command = program_of(*command);
    arguments->options.grace = std::chrono::milliseconds(arguments->grace_ms);
    throw ExitWith{run_wrapper(arguments->options)};
  });
}

}  // namespace sheaf::cli
