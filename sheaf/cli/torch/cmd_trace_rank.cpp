// sheaf trace: the command that each rank runs.
#include <iostream>
#include <memory>

#include "sheaf/cli/torch/rank_commands.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/setup/network_setup.hpp"
#include "sheaf/train/trace/recording.hpp"

namespace sheaf::cli {
namespace {

struct TraceRankArguments {
  std::string config;
  std::vector<std::string> sets;
  train::RecordingOptions recording;
  std::string output;
  std::string plan;
};

// Rank 0 reads the config and sends it, so that other hosts do not need the
// file.
train::RunConfig read_traced(const comm::Group& group,
                             const TraceRankArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (!arguments.plan.empty()) sets.push_back(plan_setting(arguments.plan));
  train::RunConfig mine;
  const std::string text = train::from_root(group, [&] {
    mine = train::complete(train::read_config(arguments.config, sets));
    return train::print_config(mine);
  });
  return group.rank() == 0 ? mine : train::parse_config(text, "rank 0's text");
}

void trace_rank(const TraceRankArguments& arguments) {
  const comm::World world = comm::init();
  const train::RunConfig config = read_traced(world, arguments);
  train::RecordingOptions options = arguments.recording;
  options.file = arguments.output;
  if (world.rank() == 0) options.out = &std::cout;
  train::record(world, config, options);
}

}  // namespace

void add_trace_rank_command(CLI::App& app) {
  auto arguments = std::make_shared<TraceRankArguments>();
  CLI::App* command =
      app.add_subcommand("trace", "Run one rank of sheaf trace");
  command->add_option("CONFIG", arguments->config)->required();
  command->add_option("--set", arguments->sets)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command->add_option("-o", arguments->output)->required();
  command->add_option("--plan", arguments->plan);
  command->add_option("--warmup", arguments->recording.warmup);
  command->add_option("--steps", arguments->recording.steps);
  command->add_option("--curvature", arguments->recording.curvature);
  command->callback([arguments] { trace_rank(*arguments); });
}

}  // namespace sheaf::cli
