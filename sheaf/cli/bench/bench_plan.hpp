#pragma once
// What `sheaf bench` is asked to do: the words of the command line, and what
// they mean.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/base/table.hpp"
#include "sheaf/comm/group/options.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/topo/machine.hpp"
#include "sheaf/topo/options.hpp"

namespace sheaf::cli {

enum class Subject { kCollective, kIdle, kGuard, kFit };

// As given; the defaults are those that the help shows.
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
  // From the process that started the ranks.
  std::string progress{};      // "out:80" or "err:80": where, and how wide
  std::string command_line{};  // what the user has typed
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
  topo::Machine machine;            // that bounds are computed from
  TableFormat format = TableFormat::kText;
};

// UsageError names the option, what was given, and what is allowed; IoError
// when the machine description cannot be read.
BenchPlan plan_bench(const BenchArgs& args);

// "allreduce", "idle" ...: what can be measured.
std::string bench_subjects();

// From `begin` to `end`, each `factor` times the one before; `end` is always
// the last.
std::vector<std::uint64_t> sweep_sizes(std::uint64_t begin, std::uint64_t end,
                                       double factor);

// "1gbit", "10Gbit/s", "800mbit": GB/s.
double parse_link_gbs(const std::string& text);

}  // namespace sheaf::cli
