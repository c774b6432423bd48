#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/topo/host_list.hpp"
#include "sheaf/topo/rankfile.hpp"

namespace sheaf::cli {
namespace {

using Hosts = std::vector<topo::HostSlots>;

bool is_this_host(const std::string& name) {
  return name == "localhost" || name == "127.0.0.1" || name == host_name();
}

Hosts read_hosts(const LaunchOptions& options) {
  SHEAF_CHECK(options.hosts.empty() || options.hostfile.empty(),
              "--hosts and --hostfile are both given; use one of them");
  if (!options.hosts.empty()) return topo::parse_host_list(options.hosts);
  if (!options.hostfile.empty()) return topo::read_host_file(options.hostfile);
  return {};
}

// Resolves a relative host: "+n1" is host number 1 of the list.
std::string host_of(const topo::RankEntry& entry, const Hosts& hosts,
                    const std::string& file) {
  if (entry.host.rfind("+n", 0) != 0) return entry.host;
  const auto index = parse_count(std::string_view(entry.host).substr(2));
  SHEAF_CHECK(index && *index < static_cast<int>(hosts.size()), file, ":",
              entry.line, ": host ", entry.host, " of rank ", entry.rank,
              " needs a list of more than ", index.value_or(0),
              " hosts, but there are ", hosts.size(), "; pass --hosts");
  return hosts[static_cast<std::size_t>(*index)].name;
}

// Open MPI also needs the hosts of a rank file as a host list, with enough
// slots for its ranks.
Hosts hosts_of_rankfile(const topo::RankFile& file, const Hosts& given) {
  Hosts hosts = given;
  std::unordered_map<std::string, std::size_t> place_of;
  for (topo::HostSlots& host : hosts) {
    host.slots = 0;
    place_of.emplace(host.name, place_of.size());
  }
  for (const topo::RankEntry& entry : file.entries) {
    const std::string name = host_of(entry, given, file.path);
    const auto [place, is_new] = place_of.emplace(name, hosts.size());
    if (is_new) hosts.push_back({name, 0});
    ++hosts[place->second].slots;
  }
  std::erase_if(hosts, [](const auto& host) { return host.slots == 0; });
  return hosts;
}

std::vector<topo::HostShape> shapes_of(const Hosts& hosts,
                                       const topo::HostInfo& here) {
  std::vector<topo::HostShape> shapes;
  for (const topo::HostSlots& host : hosts)
    shapes.push_back({host.name, is_this_host(host.name) ? here.socket_cores
                                                         : std::vector<int>{}});
  return shapes;
}

int slurm_tasks() {
  const char* tasks = std::getenv("SLURM_NTASKS");
  return tasks ? parse_count(tasks).value_or(0) : 0;
}

void check_slots(const MpiRequest& request) {
  const int slots = topo::total_slots(request.hosts);
  SHEAF_CHECK(request.hosts.empty() || request.ranks <= slots, "-n asks for ",
              request.ranks, " ranks, but the hosts have ", slots,
              " slots; add slots with host:slots, or lower -n");
}

void place_by_rankfile(const LaunchOptions& options, const topo::HostInfo& here,
                       RankPlacement& place) {
  MpiRequest& request = place.request;
  const topo::RankFile file = topo::read_rankfile(options.rankfile);
  const Hosts given = request.hosts;
  request.rankfile = options.rankfile;
  request.hosts = hosts_of_rankfile(file, given);
  if (request.ranks == 0) request.ranks = static_cast<int>(file.entries.size());
  const auto faults =
      topo::lint(file, {shapes_of(given.empty() ? request.hosts : given, here),
                        request.ranks, place.dims});
  SHEAF_CHECK(faults.empty(), topo::text_of(faults));
}

void place_by_hosts(RankPlacement& place) {
  MpiRequest& request = place.request;
  request.has_scheduler = request.hosts.empty() && std::getenv("SLURM_JOB_ID");
  const int offered =
      request.has_scheduler ? slurm_tasks() : topo::total_slots(request.hosts);
  if (request.ranks == 0) request.ranks = std::max(1, offered);
  check_slots(request);
}

}  // namespace

RankPlacement place_ranks(const LaunchOptions& options) {
  SHEAF_CHECK(options.ranks >= 0, "-n is ", options.ranks, "; write 1 or more");
  const topo::HostInfo here = topo::detect_host();
  RankPlacement place;
  if (!options.topology.empty())
    place.dims = topo::parse_dims(options.topology);
  MpiRequest& request = place.request;
  const bool is_open = options.ranks == 0 && options.rankfile.empty();
  request.ranks = is_open && place.dims ? place.dims->product() : options.ranks;
  request.cores = here.cores;
  request.hosts = read_hosts(options);
  if (options.rankfile.empty())
    place_by_hosts(place);
  else
    place_by_rankfile(options, here, place);
  if (place.dims) topo::check_fits(*place.dims, request.ranks);
  request.is_local =
      !request.has_scheduler &&
      std::all_of(request.hosts.begin(), request.hosts.end(),
                  [](const auto& host) { return is_this_host(host.name); });
  return place;
}

}  // namespace sheaf::cli
