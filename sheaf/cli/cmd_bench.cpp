// sheaf bench: starts itself on several ranks, measures, and prints the result.
#include <algorithm>
#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/base/progress.hpp"
#include "sheaf/cli/bench/bench_plan.hpp"
#include "sheaf/cli/bench/bench_rows.hpp"
#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/cli/launch/process.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "sheaf/topo/host.hpp"

namespace sheaf::cli {
namespace {

constexpr int kDefaultRanks = 2;

// Called before the launch too, so that a mistake is reported once and not by
// every rank.
void check_ranks(const BenchArgs& args, const BenchPlan& plan, int ranks) {
  SHEAF_CHECK(args.root < ranks, "--root is ", args.root,
              ", but there are only ", ranks, " ranks");
  SHEAF_CHECK(plan.subject != Subject::kIdle || ranks > 1,
              "idle needs at least two ranks; pass -n 2");
  if (plan.options.dims) topo::check_fits(*plan.options.dims, ranks);
}

std::string typed_command(const CLI::App& command) {
  std::vector<std::string> words =
      bench_words(command, /*with_launch_options=*/true);
  words.insert(words.begin(), {"sheaf", "bench"});
  return shell_quote(words);
}

bool has_placement(const LaunchOptions& launch) {
  return launch.ranks > 0 || !launch.hosts.empty() ||
         !launch.hostfile.empty() || !launch.rankfile.empty();
}

int launch_ranks(const CLI::App& command, BenchCommand& arguments,
                 const BenchPlan& plan) {
  LaunchOptions& launch = arguments.launch;
  launch.interface = arguments.bench.interface;
  if (!has_placement(launch))
    launch.ranks = plan.subject == Subject::kFit
                       ? std::max(kDefaultRanks, topo::detect_host().cores)
                       : kDefaultRanks;
  check_ranks(arguments.bench, plan, place_ranks(launch).request.ranks);
  launch.command = {this_executable(), "bench"};
  for (const std::string& word :
       bench_words(command, /*with_launch_options=*/false))
    launch.command.push_back(word);
  const std::string place = progress_place();
  if (!place.empty())
    launch.command.insert(launch.command.end(), {"--progress-place", place});
  launch.command.insert(launch.command.end(),
                        {"--command-line", typed_command(command)});
  return cli::launch(launch);
}

Ending measure(const comm::Group& group, const BenchJob& job) {
  switch (job.plan.subject) {
    case Subject::kIdle:
      return run_idle(group, job);
    case Subject::kGuard:
      return run_guard(group, job);
    case Subject::kFit:
      return run_fit(group, job);
    default:
      return run_sweep(group, job);
  }
}

void be_a_rank(const LaunchOptions& launch, const BenchJob& job) {
  if (!job.args.record.empty()) current_commit();
  Ending ending;
  {
    const comm::World world = comm::init(job.plan.options);
    SHEAF_CHECK(launch.ranks == 0 || launch.ranks == world.size(), "-n is ",
                launch.ranks, ", but the launcher started ", world.size(),
                " ranks; omit -n under mpirun");
    check_ranks(job.args, job.plan, world.size());
    ending = measure(world, job);
  }
  if (ending) ending();
}

void run_bench(const CLI::App& command, BenchCommand& arguments) {
  BenchJob job{arguments.bench, plan_bench(arguments.bench)};
  if (!job.args.record.empty()) check_appendable(job.args.record);
  if (!comm::is_under_mpi_launcher())
    throw ExitWith{launch_ranks(command, arguments, job.plan)};
  if (job.args.command_line.empty())
    job.args.command_line = typed_command(command);
  be_a_rank(arguments.launch, job);
}

// `sheaf bench cast` runs on one device, in sheaf-torch.
void add_cast_subcommand(CLI::App& bench) {
  struct CastOptions {
    std::string device = "cpu", machine, format = "text";
  };
  auto options = std::make_shared<CastOptions>();
  CLI::App* command = bench.add_subcommand(
      "cast", "Measure casts between element types on a device");
  command->footer("");  // not that of bench
  command->add_option("--device", options->device, "cpu or cuda");
  command->add_option("--machine", options->machine,
                      "machine.json to update with the result");
  command->add_option("--format", options->format, "text, csv or json");
  command->callback([options] {
    std::vector<std::string> words{"cast", "--device", options->device,
                                   "--format", options->format};
    if (!options->machine.empty())
      words.insert(words.end(), {"--machine", options->machine});
    become_torch_program(words);
  });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto arguments = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand(
      "bench", "Benchmark collectives, and compare with MPI and Gloo");
  add_bench_options(*command, *arguments);
  add_cast_subcommand(*command);
  command->callback([arguments, command] {
    if (command->get_subcommands().empty()) run_bench(*command, *arguments);
  });
}

}  // namespace sheaf::cli
