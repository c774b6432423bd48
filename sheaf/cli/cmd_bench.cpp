// sheaf bench: starts itself on several ranks, measures, prints.
#include <iostream>
#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/bench_progress.hpp"
#include "sheaf/cli/bench_record.hpp"
#include "sheaf/cli/bench_run.hpp"
#include "sheaf/cli/commands.hpp"
#include "sheaf/cli/launcher.hpp"
#include "sheaf/cli/process.hpp"
#include "sheaf/comm/transport.hpp"
#include "sheaf/comm/world.hpp"
#include "sheaf/topo/host.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kLaunchGroup = "Ranks";
constexpr int kDefaultRanks = 2;

constexpr const char* kFooter =
    "Examples:\n"
    "  sheaf bench allreduce -n 2 -b 8 -e 128M -f 2 --versus mpi\n"
    "  sheaf bench allreduce -n 4 -b 64M -e 64M --buffer plain --json\n"
    "  sheaf bench --fit machine.json\n"
    "  sheaf bench idle -n 2 --versus mpi\n"
    "docs/performance.md says how every column is derived. Under mpirun the\n"
    "command is a rank itself and starts none.";

struct Arguments {
  LaunchOptions launch;
  BenchArgs bench;
};

void add_launch_options(CLI::App& command, LaunchOptions& launch) {
  command
      .add_option("-n,--ranks", launch.ranks,
                  "Number of ranks; else what the hosts offer, or 2")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N");
  auto* hosts = command.add_option("--hosts", launch.hosts,
                                   "Hosts and their slots, such as a:2,b:2");
  command
      .add_option("--hostfile", launch.hostfile, "File with one host per line")
      ->excludes(hosts);
  command.add_option("--rankfile", launch.rankfile,
                     "Open MPI rank file: hosts and cores of each rank");
  command.add_option("--topology", launch.topology,
                     "Sizes of the tiers, such as 4x3: ranks per host x hosts");
  command.add_option("--agent", launch.agent,
                     "Starts daemons on other hosts in place of ssh");
  command
      .add_option("--mpi-arg", launch.mpi_args,
                  "An argument for mpirun; may be given many times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_flag("-v,--verbose", launch.verbose,
                   "Print the line of mpirun first");
  for (CLI::Option* option : command.get_options())
    if (option->get_name() != "--help") option->group(kLaunchGroup);
}

void add_sizes(CLI::App& command, BenchArgs& args) {
  command.add_option("what", args.what, "One of " + bench_subjects());
  command.add_option("-b,--begin", args.begin, "Smallest size, such as 8")
      ->capture_default_str();
  command.add_option("-e,--end", args.end, "Largest size, such as 128M")
      ->capture_default_str();
  command.add_option("-f,--factor", args.factor, "From one size to the next")
      ->capture_default_str();
  command.add_option("--dtype", args.dtype, "Element type")
      ->capture_default_str();
  command.add_option("--op", args.op, "Reduction")->capture_default_str();
  command.add_option("--root", args.root, "Root of rooted operations")
      ->capture_default_str();
  command
      .add_option("--buffer", args.buffer,
                  "arena (shared memory of Sheaf) or plain (malloc)")
      ->capture_default_str();
  command.add_flag("--in-place,!--out-of-place", args.in_place,
                   "One buffer for input and output, or two");
}

void add_method(CLI::App& command, BenchArgs& args) {
  command.add_option("--warmup", args.warmup, "Untimed iterations")
      ->capture_default_str();
  command.add_option("--iterations", args.iterations,
                     "Iterations of a block; 0: 0.2 s for all blocks, at "
                     "most 1000 in one");
  command.add_option("--blocks", args.blocks, "Blocks of iterations")
      ->capture_default_str();
  command.add_option("--rotate", args.rotate,
                     "Buffers used in turn; 1: warm cache; 0: twice the cache");
  command.add_flag("--check,!--no-check", args.check,
                   "Compare results bit by bit");
  command.add_option("--algorithm", args.algorithm, "Algorithm to force");
  command.add_option("--mode", args.mode, "DDL's mode, such as r or b:2x2");
  command.add_option("--versus", args.versus,
                     "Compare with mpi, gloo, or mpi,gloo");
}

void add_machine_and_output(CLI::App& command, BenchArgs& args) {
  command.add_option("--machine", args.machine,
                     "Description of the machine, for bounds and algorithms");
  command.add_option("--link", args.link,
                     "Speed of a host's network, such as 1gbit, for bounds");
  command.add_option("--interface", args.interface,
                     "Network interface between hosts, such as eth0");
  command.add_option("--fit", args.fit,
                     "Measure the machine and write its description here");
  command.add_option("--record", args.record,
                     "Append rows, with machine and command, to this file");
  command.add_flag("--json", args.json, "One JSON object per row");
  command.add_flag("--csv", args.csv, "Comma-separated values");
  command.add_option("--progress-place", args.progress)->group("");
  command.add_option("--command-line", args.command_line)->group("");
}

// The words that give these options again.
std::vector<std::string> words_of(const CLI::App& command,
                                  bool with_launch_options) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_group().empty()) continue;
    if (!with_launch_options && option->get_group() == kLaunchGroup) continue;
    for (const std::string& value : option->results()) {
      if (option->get_positional()) {
        words.insert(words.begin(), value);
      } else if (option->get_expected_max() == 0) {  // a flag
        words.push_back("--" + option->get_single_name() + "=" + value);
      } else {
        words.push_back("--" + option->get_single_name());
        words.push_back(value);
      }
    }
  }
  return words;
}

std::string typed_command(const CLI::App& command) {
  std::vector<std::string> words = words_of(command, true);
  words.insert(words.begin(), {"sheaf", "bench"});
  return shell_quote(words);
}

bool has_placement(const LaunchOptions& launch) {
  return launch.ranks > 0 || !launch.hosts.empty() ||
         !launch.hostfile.empty() || !launch.rankfile.empty();
}

int launch_ranks(const CLI::App& command, Arguments& arguments,
                 const BenchPlan& plan) {
  LaunchOptions& launch = arguments.launch;
  launch.interface = arguments.bench.interface;
  if (!has_placement(launch))
    launch.ranks = plan.subject == Subject::kFit
                       ? std::max(kDefaultRanks, topo::detect_host().cores)
                       : kDefaultRanks;
  launch.command = {this_executable(), "bench"};
  for (const std::string& word : words_of(command, false))
    launch.command.push_back(word);
  const std::string place = progress_place();
  if (!place.empty())
    launch.command.insert(launch.command.end(), {"--progress-place", place});
  launch.command.insert(launch.command.end(),
                        {"--command-line", typed_command(command)});
  return cli::launch(launch);
}

// False when results were wrong.
bool measure(const comm::Group& group, const BenchJob& job) {
  switch (job.plan.subject) {
    case Subject::kIdle:
      run_idle(group, job);
      return true;
    case Subject::kGuard:
      run_guard(group, job);
      return true;
    case Subject::kFit:
      run_fit(group, job);
      return true;
    default:
      return run_sweep(group, job);
  }
}

void be_a_rank(const LaunchOptions& launch, const BenchJob& job) {
  if (!job.args.record.empty()) current_commit();
  bool is_right = true;
  bool is_first = false;
  {
    const comm::World world = comm::init(job.plan.options);
    SHEAF_CHECK(launch.ranks == 0 || launch.ranks == world.size(), "-n is ",
                launch.ranks, ", but the launcher has started ", world.size(),
                " ranks; leave -n out under mpirun");
    is_right = measure(world, job);
    is_first = world.rank() == 0;
  }
  if (!is_right && is_first)
    throw InternalError(
        "results were wrong, see the column #wrong (this is a bug in sheaf, "
        "please report it)");
}

void run_bench(const CLI::App& command, Arguments& arguments) {
  BenchJob job{arguments.bench, plan_bench(arguments.bench)};
  if (!comm::is_under_mpi_launcher())
    throw ExitWith{launch_ranks(command, arguments, job.plan)};
  if (job.args.command_line.empty())
    job.args.command_line = typed_command(command);
  be_a_rank(arguments.launch, job);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure collectives, and compare with MPI and Gloo");
  command->footer(kFooter);
  add_launch_options(*command, arguments->launch);
  add_sizes(*command, arguments->bench);
  add_method(*command, arguments->bench);
  add_machine_and_output(*command, arguments->bench);
  command->callback([arguments, command] { run_bench(*command, *arguments); });
}

}  // namespace sheaf::cli
