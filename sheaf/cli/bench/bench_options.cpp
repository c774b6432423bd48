#include "sheaf/cli/bench/bench_plan.hpp"
#include "sheaf/cli/launch/launcher.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kLaunchGroup = "Ranks";

constexpr const char* kBenchFooter =
    "Examples:\n"
    "  sheaf bench allreduce -n 2 -b 8 -e 128M -f 2 --versus mpi\n"
    "  sheaf bench allreduce -n 4 -b 64M -e 64M --buffer plain --json\n"
    "  sheaf bench --fit machine.json\n"
    "  sheaf bench idle -n 2 --versus mpi\n"
    "docs/reference/bench.md explains how every column is derived. Under "
    "mpirun\n"
    "the command runs as one rank and does not start others.";

void add_sizes(CLI::App& command, BenchArgs& args) {
  command.add_option("what", args.what,
                     "Benchmark to run: " + bench_subjects());
  command.add_option("-b,--begin", args.begin, "Smallest size, such as 8")
      ->capture_default_str();
  command.add_option("-e,--end", args.end, "Largest size, such as 128M")
      ->capture_default_str();
  command
      .add_option("-f,--factor", args.factor,
                  "Ratio of one size to the previous one")
      ->capture_default_str();
  command.add_option("--dtype", args.dtype, "Element type")
      ->capture_default_str();
  command.add_option("--op", args.op, "Reduction operation")
      ->capture_default_str();
  command.add_option("--root", args.root, "Root of rooted operations")
      ->capture_default_str();
  command
      .add_option("--buffer", args.buffer,
                  "arena (Sheaf's shared memory) or plain (malloc)")
      ->capture_default_str();
  command.add_flag("--in-place,!--out-of-place", args.in_place,
                   "Use one buffer for input and output, or two");
}

void add_method(CLI::App& command, BenchArgs& args) {
  command.add_option("--warmup", args.warmup, "Untimed iterations")
      ->capture_default_str();
  command.add_option("--iterations", args.iterations,
                     "Iterations per block (default: as many as fit in 0.2 s, "
                     "at most 1000)");
  command.add_option("--blocks", args.blocks,
                     "Number of blocks (default: as many as fit in 0.2 s, 11 "
                     "to 101)");
  command.add_option("--rotate", args.rotate,
                     "Number of buffers to cycle through (default: enough to "
                     "exceed the cache); 1: warm cache");
  command.add_flag("--check,!--no-check", args.check,
                   "Check results bit by bit");
  command.add_option("--algorithm", args.algorithm,
                     "Algorithm to use instead of the automatic choice");
  command.add_option("--mode", args.mode, "DDL's mode, such as r or b:2x2");
  command.add_option("--versus", args.versus,
                     "Compare with mpi, gloo, or mpi,gloo");
}

void add_machine_and_output(CLI::App& command, BenchArgs& args) {
  command.add_option("--machine", args.machine,
                     "machine.json, for bounds and the choice of algorithms");
  command.add_option("--link", args.link,
                     "Network speed of a host, such as 1gbit, for bounds");
  command.add_option("--interface", args.interface,
                     "Network interface between hosts, such as eth0");
  command.add_option("--fit", args.fit,
                     "Measure the machine and write the result to this "
                     "machine.json");
  command.add_option("--record", args.record,
                     "Append rows, with machine and command, to this file");
  command.add_flag("--json", args.json, "Print one JSON object per row");
  command.add_flag("--csv", args.csv, "Print comma-separated values");
  command.add_option("--progress-place", args.progress)->group("");
  command.add_option("--command-line", args.command_line)->group("");
}

}  // namespace

void add_bench_options(CLI::App& command, BenchCommand& arguments) {
  command.footer(kBenchFooter);
  add_launch_options(command, arguments.launch, /*ranks=*/2);
  for (CLI::Option* option : command.get_options())
    if (option->get_name() != "--help") option->group(kLaunchGroup);
  add_sizes(command, arguments.bench);
  add_method(command, arguments.bench);
  add_machine_and_output(command, arguments.bench);
}

std::vector<std::string> bench_words(const CLI::App& command,
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

}  // namespace sheaf::cli
