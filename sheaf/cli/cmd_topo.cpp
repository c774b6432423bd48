// sheaf topo: shows the hardware of this host; checks and writes rank files.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/table.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/topo/host_list.hpp"
#include "sheaf/topo/rankfile.hpp"

namespace sheaf::cli {
namespace {

constexpr int kBadFileExitCode = 2;

struct TopoArgs {
  std::string lint;
  std::string make;
  std::string hosts;
  std::string hostfile;
  std::string topology;
  std::string cores;
  std::string output;
  int ranks = 0;
  bool as_json = false;

  TableFormat format() const {
    return as_json ? TableFormat::kJson : TableFormat::kText;
  }
};

// "2 MiB" in text output, the number of bytes in JSON.
Cell bytes_cell(std::int64_t bytes, bool as_json) {
  if (as_json) return bytes;
  if (bytes == 0) return {};
  return format_bytes(static_cast<std::uint64_t>(bytes));
}

void show_host(const TopoArgs& args) {
  const topo::HostInfo host = topo::detect_host();
  Table table({{.name = "host", .align = Align::kLeft},
               {.name = "sockets"},
               {.name = "cores"},
               {.name = "threads", .key = "hardware_threads"},
               {.name = "NUMA nodes", .key = "numa_nodes"},
               {.name = "L2", .key = "l2_bytes"},
               {.name = "L3", .key = "l3_bytes"},
               {.name = "memory", .key = "memory_bytes"}});
  table.add_row({host.name, host.sockets(), host.cores, host.hardware_threads,
                 host.numa_nodes, bytes_cell(host.l2.bytes, args.as_json),
                 bytes_cell(host.l3.bytes, args.as_json),
                 bytes_cell(host.memory_bytes, args.as_json)});
  table.print(std::cout, args.format());
}

std::vector<std::string> listed_hosts(const TopoArgs& args) {
  std::vector<topo::HostSlots> hosts;
  if (!args.hosts.empty()) hosts = topo::parse_host_list(args.hosts);
  if (!args.hostfile.empty()) hosts = topo::read_host_file(args.hostfile);
  std::vector<std::string> names;
  for (const topo::HostSlots& host : hosts) names.push_back(host.name);
  return names;
}

// The hosts that the rank file names. Relative hosts ("+n0") cannot be resolved
// without a host list; if there is one, the result is empty and hosts are not
// checked.
std::vector<std::string> named_hosts(const topo::RankFile& file) {
  std::vector<std::string> names;
  std::set<std::string_view> known;
  for (const topo::RankEntry& entry : file.entries) {
    if (entry.host.starts_with('+')) return {};
    if (known.insert(entry.host).second) names.push_back(entry.host);
  }
  return names;
}

// --cores 20, or 2x10: two sockets of ten.
std::vector<int> parse_cores(const std::string& text) {
  const topo::Dims dims = topo::parse_dims(text);
  constexpr int kMostCores = 1 << 20;
  SHEAF_CHECK(dims.product() <= kMostCores, "--cores is '", text,
              "'; a host has at most ", kMostCores);
  SHEAF_CHECK(dims.sizes.size() <= 2, "--cores is '", text,
              "'; write the number of cores of a host, such as 20, or sockets "
              "x cores per socket, such as 2x10");
  if (dims.sizes.size() == 1) return dims.sizes;
  return std::vector<int>(dims.sizes[0], dims.sizes[1]);
}

// The cores of a host are known if --cores is given or if it is this host;
// otherwise the list of sockets is empty.
topo::HostShape shape_of(const std::string& name, const TopoArgs& args,
                         const topo::HostInfo& here) {
  if (!args.cores.empty()) return {name, parse_cores(args.cores)};
  if (name == here.name || name == "localhost")
    return {name, here.socket_cores};
  return {name, {}};
}

topo::RankFileContext context_of(const TopoArgs& args,
                                 const topo::RankFile& file) {
  topo::RankFileContext context;
  std::vector<std::string> names = listed_hosts(args);
  if (names.empty()) names = named_hosts(file);
  const topo::HostInfo here = topo::detect_host();
  for (const std::string& name : names)
    context.hosts.push_back(shape_of(name, args, here));
  if (args.ranks > 0) context.ranks = args.ranks;
  if (!args.topology.empty()) context.dims = topo::parse_dims(args.topology);
  return context;
}

void print_problems(const std::vector<topo::Diagnostic>& problems,
                    const TopoArgs& args) {
  if (!args.as_json) {
    std::cerr << topo::text_of(problems) << std::endl;
    return;
  }
  Table table({{.name = "file"},
               {.name = "line"},
               {.name = "fault"},
               {.name = "text"}});
  for (const topo::Diagnostic& problem : problems)
    table.add_row(
        {args.lint, problem.line, topo::name_of(problem.fault), problem.text});
  table.print(std::cout, TableFormat::kJson);
}

void lint_file(const TopoArgs& args) {
  std::vector<topo::Diagnostic> problems;
  const topo::RankFile file = topo::parse_rankfile(
      read_file(args.lint, kMostTextBytes), args.lint, problems);
  const auto found = topo::lint(file, context_of(args, file));
  problems.insert(problems.end(), found.begin(), found.end());
  std::stable_sort(
      problems.begin(), problems.end(),
      [](const auto& a, const auto& b) { return a.line < b.line; });
  if (!problems.empty()) {
    print_problems(problems, args);
    throw ExitWith{kBadFileExitCode};
  }
  if (!args.as_json)
    std::cout << args.lint << ": " << file.entries.size()
              << " ranks, no problems\n";
}

int cores_per_host(const TopoArgs& args) {
  if (args.cores.empty()) return topo::detect_host().cores;
  int total = 0;
  for (const int cores : parse_cores(args.cores)) total += cores;
  return total;
}

void print_entries(const topo::RankFile& file) {
  Table table({{.name = "rank"}, {.name = "host"}, {.name = "slot"}});
  for (const topo::RankEntry& entry : file.entries)
    table.add_row({entry.rank, entry.host, topo::text_of(entry.slots)});
  table.print(std::cout, TableFormat::kJson);
}

void make_file(const TopoArgs& args) {
  const topo::RankFile file = topo::make_rankfile(
      topo::parse_dims(args.make), listed_hosts(args), cores_per_host(args));
  if (!args.output.empty())
    topo::write_rankfile(file, args.output);
  else if (args.as_json)
    print_entries(file);
  else
    std::cout << topo::text_of(file);
}

void run_topo(const TopoArgs& args) {
  if (!args.lint.empty()) return lint_file(args);
  if (!args.make.empty()) return make_file(args);
  show_host(args);
}

void add_rankfile_options(CLI::App& command, TopoArgs& args) {
  auto* lint = command.add_option(
      "--lint", args.lint, "Check this rank file; exit with 2 on errors");
  auto* make = command.add_option(
      "--make", args.make, "Write a rank file for a topology such as 4x3");
  make->excludes(lint);
  auto* hosts =
      command.add_option("--hosts", args.hosts, "Hosts: a,b or a:2,b:2");
  auto* hostfile =
      command.add_option("--hostfile", args.hostfile, "Hosts, one per line");
  hostfile->excludes(hosts);
  command.add_option("--cores", args.cores,
                     "Cores per host, such as 20 or 2x10 (sockets x cores) "
                     "(default: those of this host)");
  command.add_option("-n,--ranks", args.ranks, "Number of ranks to start")
      ->needs(lint)
      ->check(CLI::PositiveNumber);
  command
      .add_option("--topology", args.topology,
                  "Topology to check against, such as 4x3")
      ->needs(lint);
  command.add_option("-o,--output", args.output, "File to write")->needs(make);
}

}  // namespace

void add_topo_command(CLI::App& app) {
  auto args = std::make_shared<TopoArgs>();
  CLI::App* command = app.add_subcommand(
      "topo", "Show the hardware of this host; check or write a rank file");
  add_rankfile_options(*command, *args);
  command->add_flag("--json", args->as_json, "Print one JSON object per row");
  command->callback([args] { run_topo(*args); });
}

}  // namespace sheaf::cli
