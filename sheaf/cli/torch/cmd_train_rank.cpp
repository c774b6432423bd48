// sheaf train: the command that each rank runs.
#include <iostream>
#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/command/train_options.hpp"
#include "sheaf/cli/torch/plan_setting.hpp"
#include "sheaf/cli/torch/rank_commands.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/stop_signal.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "sheaf/train/setup/network_setup.hpp"

namespace sheaf::cli {
namespace {

struct TrainRankArguments : TrainArguments {
  std::string progress_place;
};

train::RunConfig read(const TrainArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (!arguments.plan.empty()) sets.push_back(plan_setting(arguments.plan));
  train::RunConfig config =
      train::complete(train::read_config(arguments.config, sets));
  if (!arguments.output.empty()) config.output.folder = arguments.output;
  return config;
}

// Rank 0 reads the config and sends it, so that other hosts do not need the
// file.
train::RunConfig read_for_all(const comm::Group& group,
                              const TrainArguments& arguments) {
  train::RunConfig mine;
  const std::string text = train::from_root(group, [&] {
    mine = read(arguments);
    return train::print_config(mine);
  });
  return group.rank() == 0 ? mine : train::parse_config(text, "rank 0's text");
}

// `place` is "out:80" or "err:80": the stream that the launcher chose for the
// progress line, and its width. Null if empty.
std::unique_ptr<Progress> make_progress(const std::string& place) {
  if (place.size() < 5) return nullptr;
  ProgressOptions options;
  options.is_terminal = true;
  options.columns = std::strtoul(place.c_str() + 4, nullptr, 10);
  return std::make_unique<Progress>(
      place.rfind("out:", 0) == 0 ? std::cout : std::cerr, options);
}

train::Ending train_on(const comm::Group& group,
                       const TrainRankArguments& arguments) {
  const train::RunConfig config = read_for_all(group, arguments);
  if (arguments.explains) {
    train::explain(group, config, std::cout);
    return train::Ending::kFinished;
  }
  train::TrainOptions options;
  options.config_name = arguments.config;
  options.is_resumed = arguments.is_resumed;
  options.accepts_changes = arguments.accepts_changes;
  const auto progress = make_progress(arguments.progress_place);
  if (group.rank() == 0) {
    options.out = &std::cout;
    options.progress = progress.get();
  }
  return train::run(group, config, options).ending;
}

void run_rank(const TrainRankArguments& arguments) {
  if (arguments.prints_config) {
    std::cout << train::print_config(read(arguments));
    return;
  }
  train::Ending ending;
  {
    const comm::World world = comm::init();
    ending = train_on(world, arguments);
  }
  // MPI launchers treat a nonzero exit code of a rank as a crash.
  const bool was_stopped = ending == train::Ending::kStoppedBySignal;
  if (was_stopped && !comm::is_under_mpi_launcher())
    throw ExitWith{128 + train::last_stop_signal()};
}

}  // namespace

void add_train_rank_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainRankArguments>();
  CLI::App* command =
      app.add_subcommand("train", "Run one rank of sheaf train");
  add_train_options(*command, *arguments);
  command->add_option("--progress-place", arguments->progress_place);
  command->callback([arguments] { run_rank(*arguments); });
}

}  // namespace sheaf::cli
