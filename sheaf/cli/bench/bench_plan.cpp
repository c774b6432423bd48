#include "sheaf/cli/bench/bench_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;

struct Named {
  std::string_view name;
  Subject subject;
  Operation operation;
};

constexpr std::array kSubjects{
    Named{"allreduce", Subject::kCollective, Operation::kAllReduce},
    Named{"broadcast", Subject::kCollective, Operation::kBroadcast},
    Named{"reduce", Subject::kCollective, Operation::kReduce},
    Named{"allgather", Subject::kCollective, Operation::kAllGather},
    Named{"reducescatter", Subject::kCollective, Operation::kReduceScatter},
    Named{"alltoall", Subject::kCollective, Operation::kAllToAll},
    Named{"gather", Subject::kCollective, Operation::kGather},
    Named{"scatter", Subject::kCollective, Operation::kScatter},
    Named{"sendrecv", Subject::kCollective, Operation::kSend},
    Named{"barrier", Subject::kCollective, Operation::kBarrier},
    Named{"idle", Subject::kIdle, Operation::kBarrier},
    Named{"guard", Subject::kGuard, Operation::kAllReduce}};

// Normalizes a name: "all_reduce", "all-reduce" and "AllReduce" become
// "allreduce".
std::string plain_name(std::string_view text) {
  std::string name;
  for (const char letter : text)
    if (letter != '_' && letter != '-')
      name += static_cast<char>(std::tolower(letter));
  return name;
}

const Named& find_subject(const std::string& word) {
  const std::string name = plain_name(word);
  std::vector<std::string_view> names;
  for (const Named& one : kSubjects) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  throw UsageError(concat("cannot measure '", word, "'",
                          did_you_mean(name, names), "; choose one of ",
                          bench_subjects()));
}

std::vector<std::string> parse_versus(const std::string& text,
                                      const comm::RivalCall& largest) {
  std::vector<std::string> names;
  if (text.empty()) return names;
  for (const std::string_view part : split(text, ',')) {
    const std::string name(trim(part));
    SHEAF_CHECK(name == "mpi" || name == "gloo", "--versus is '", name,
                "'; use mpi, gloo, or mpi,gloo");
    name == "mpi" ? comm::check_mpi_rival(largest)
                  : comm::check_gloo_rival(largest);
    SHEAF_CHECK(std::find(names.begin(), names.end(), name) == names.end(),
                "--versus names ", name, " twice");
    names.push_back(name);
  }
  return names;
}

topo::Options parse_settings(const BenchArgs& args) {
  topo::Options options = topo::options_from_environment();
  if (!args.mode.empty()) {
    const topo::Options given = topo::parse_options("-mode " + args.mode);
    options.mode = given.mode;
    if (given.dims) options.dims = given.dims;
  }
  if (!args.machine.empty()) options.machine = args.machine;
  return options;
}

topo::Machine read_machine(const BenchArgs& args,
                           const topo::Options& options) {
  topo::Machine machine;
  if (!options.machine.empty()) machine = topo::load_machine(options.machine);
  if (!args.link.empty())
    machine.network.bandwidth_gbs = parse_link_gbs(args.link);
  return machine;
}

void check_numbers(const BenchArgs& args) {
  SHEAF_CHECK(args.root >= 0, "--root is ", args.root, "; ranks start at 0");
  SHEAF_CHECK(args.warmup >= 0, "--warmup is ", args.warmup,
              "; it cannot be negative");
  SHEAF_CHECK(args.blocks >= 0 && args.iterations >= 0, "--blocks is ",
              args.blocks, " and --iterations is ", args.iterations,
              "; neither can be negative");
  SHEAF_CHECK(args.rotate >= 0, "--rotate is ", args.rotate,
              "; it cannot be negative");
  SHEAF_CHECK(args.buffer == "arena" || args.buffer == "plain", "--buffer is '",
              args.buffer, "'; use arena or plain");
  SHEAF_CHECK(!args.json || !args.csv,
              "--json and --csv are mutually exclusive; choose one");
}

void plan_subject(const BenchArgs& args, BenchPlan& plan) {
  if (!args.fit.empty()) {
    SHEAF_CHECK(args.what.empty(), "--fit measures the machine, not '",
                args.what, "'; omit one of them");
    plan.subject = Subject::kFit;
    plan.name = "fit";
    return;
  }
  SHEAF_CHECK(!args.what.empty(), "choose what to measure: one of ",
              bench_subjects(), ", or --fit FILE");
  const Named& subject = find_subject(args.what);
  plan.subject = subject.subject;
  plan.operation = subject.operation;
  plan.name = subject.name;
}

}  // namespace

std::string bench_subjects() {
  std::vector<std::string_view> names;
  for (const Named& one : kSubjects) names.push_back(one.name);
  return join(names, ", ");
}

std::vector<std::uint64_t> sweep_sizes(std::uint64_t begin, std::uint64_t end,
                                       double factor) {
  SHEAF_CHECK(begin >= 1 && begin <= end, "sizes go from -b ", begin, " to -e ",
              end, " bytes; -b must be at least 1 and not above -e");
  SHEAF_CHECK(factor > 1, "-f is ", factor, "; it must be greater than 1");
  std::vector<std::uint64_t> sizes;
  // Kept as a fraction: with a small factor, a rounded size would not grow.
  auto size = static_cast<double>(begin);
  while (size < static_cast<double>(end)) {
    const auto whole = static_cast<std::uint64_t>(size);
    if (sizes.empty() || whole > sizes.back()) sizes.push_back(whole);
    size *= factor;
  }
  sizes.push_back(end);
  return sizes;
}

double parse_link_gbs(const std::string& text) {
  char* rest = nullptr;
  const double number = std::strtod(text.c_str(), &rest);
  std::string unit = plain_name(rest);
  if (unit.ends_with("/s")) unit.resize(unit.size() - 2);
  if (unit.ends_with("ps")) unit.resize(unit.size() - 2);
  const double bits = unit == "gbit" || unit == "gb"   ? 1e9
                      : unit == "mbit" || unit == "mb" ? 1e6
                                                       : 0;
  SHEAF_CHECK(number > 0 && std::isfinite(number) && bits > 0, "--link is '",
              text, "'; write a speed such as 1gbit or 800mbit");
  return number * bits / 8 / 1e9;
}

BenchPlan plan_bench(const BenchArgs& args) {
  check_numbers(args);
  BenchPlan plan;
  plan_subject(args, plan);
  plan.sizes =
      sweep_sizes(parse_bytes(args.begin), parse_bytes(args.end), args.factor);
  if (plan.operation == Operation::kBarrier) plan.sizes = {0};
  plan.dtype = parse_dtype(args.dtype);
  if (is_reducing(plan.operation)) plan.op = comm::parse_reduce_op(args.op);
  SHEAF_CHECK(comm::is_defined(plan.op, plan.dtype), "--op ", args.op,
              " is not defined for --dtype ", args.dtype);
  if (!args.algorithm.empty())
    plan.algorithm = topo::parse_algorithm(args.algorithm);
  plan.in_arena = args.buffer == "arena";
  plan.versus = parse_versus(
      args.versus, {.operation = plan.operation,
                    .dtype = plan.dtype,
                    .op = plan.op,
                    .count = plan.sizes.back() / size_of(plan.dtype)});
  plan.options = parse_settings(args);
  plan.machine = read_machine(args, plan.options);
  plan.format = args.json  ? TableFormat::kJson
                : args.csv ? TableFormat::kCsv
                           : TableFormat::kText;
  return plan;
}

}  // namespace sheaf::cli
