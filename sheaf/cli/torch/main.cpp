// sheaf-torch: the commands that need libtorch, run as one rank of several or
// as a single process. Messages begin with "sheaf", like those of the command
// that starts it.
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/failure_note.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/torch/rank_commands.hpp"

namespace {

constexpr int kUsageExitCode = 2;

int run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageExitCode;
  } catch (const sheaf::cli::ExitWith& exit) {
    return exit.code;
  } catch (const sheaf::FailedOnRoot& failure) {
    return failure.code();
  } catch (const std::exception& error) {
    // Sheaf's errors may list ranks, one per line; other errors are cut to one
    // line.
    const bool is_ours = dynamic_cast<const sheaf::Error*>(&error) != nullptr;
    const std::string text = is_ours ? error.what() : sheaf::one_line(error);
    std::cerr << "sheaf: " << text << std::endl;
    sheaf::leave_failure_note(sheaf::cause_of(error), text);
    return sheaf::exit_code(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  sheaf::keep_freed_memory();
  CLI::App app{"The part of sheaf that needs libtorch", "sheaf"};
  app.require_subcommand(1);
  sheaf::cli::add_cast_command(app);
  sheaf::cli::add_data_command(app);
  sheaf::cli::add_sweep_plan_command(app);
  sheaf::cli::add_trace_rank_command(app);
  sheaf::cli::add_train_rank_command(app);
  return run(app, argc, argv);
}
