#pragma once
// The request to `sheaf bench`: the command-line options and their parsed form.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/base/table.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/topo/machine.hpp"
#include "sheaf/topo/options.hpp"

namespace sheaf::cli {

enum class Subject { kCollective, kIdle, kGuard, kFit };

// The options as given; the initializers are the defaults shown in the help.
struct BenchArgs {
  std::string what{};
  std::string begin = "8";
  std::string end = "64M";
  double factor = 8;
  std::string dtype = "f32";
  std::string op = "sum";
  int root = 0;
  std::string buffer = "arena";
  bool in_place = true;
  int warmup = 5;
  int iterations = 0;
  int blocks = 0;
  int rotate = 0;
  bool check = true;
  std::string algorithm{};
  std::string mode{};
  std::string versus{};
  std::string machine{};
  std::string link{};
  std::string interface {};
  std::string fit{};
  std::string record{};
  bool json = false;
  bool csv = false;
  // Set by the process that started the ranks.
  std::string progress{};      // "out:80" or "err:80": stream and width
  std::string command_line{};  // as typed by the user
};

struct BenchPlan {
  Subject subject = Subject::kCollective;
  comm::Operation operation = comm::Operation::kAllReduce;
  std::string name;                  // "allreduce"
  std::vector<std::uint64_t> sizes;  // in bytes, ascending
  DType dtype = DType::kF32;
  comm::ReduceOp op = comm::ReduceOp::kSum;
  comm::Algorithm algorithm = comm::Algorithm::kAuto;
  bool in_arena = true;
  std::vector<std::string> versus;  // "mpi", "gloo"
  topo::Options options;            // for comm::init
  topo::Machine machine;            // for the lower bounds
  TableFormat format = TableFormat::kText;
};

// Throws UsageError with the option, its value and the allowed values, or
// IoError if machine.json cannot be read.
BenchPlan plan_bench(const BenchArgs& args);

// The benchmarks, as a list: "allreduce, broadcast, ...".
std::string bench_subjects();

// Sizes from `begin` to `end`, each `factor` times the previous one; `end` is
// always the last.
std::vector<std::uint64_t> sweep_sizes(std::uint64_t begin, std::uint64_t end,
                                       double factor);

// Converts "1gbit", "10Gbit/s" or "800mbit" to GB/s.
double parse_link_gbs(const std::string& text);

struct BenchCommand {
  LaunchOptions launch;
  BenchArgs bench;
};

// `arguments` must outlive the command.
void add_bench_options(CLI::App& command, BenchCommand& arguments);

// The command-line arguments that reproduce the given options; the options that
// only concern the launch of ranks are included on request.
std::vector<std::string> bench_words(const CLI::App& command,
                                     bool with_launch_options);

}  // namespace sheaf::cli
