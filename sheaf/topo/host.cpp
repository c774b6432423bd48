#include "sheaf/topo/host.hpp"

#include <hwloc.h>

#include <fstream>
#include <memory>
#include <type_traits>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::topo {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const noexcept {
    hwloc_topology_destroy(topology);
  }
};
using Topology =
    std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    throw IoError("hwloc cannot inspect this host: init failed");
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0)
    throw IoError("hwloc cannot inspect this host: load failed");
  return topology;
}

int count(const Topology& topology, hwloc_obj_type_t type) {
  const int found = hwloc_get_nbobjs_by_type(topology.get(), type);
  return found > 0 ? found : 0;
}

Cache cache_of(const Topology& topology, hwloc_obj_type_t type) {
  const hwloc_obj_t first = hwloc_get_obj_by_type(topology.get(), type, 0);
  if (first == nullptr) return {};
  return {count(topology, type),
          static_cast<std::int64_t>(first->attr->cache.size)};
}

// Some virtual machines show neither sockets nor cores; then hardware threads
// count as cores.
hwloc_obj_type_t core_type(const Topology& topology) {
  return count(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

std::vector<int> cores_by_socket(const Topology& topology) {
  const hwloc_obj_type_t core = core_type(topology);
  std::vector<int> cores;
  hwloc_obj_t socket = nullptr;
  while ((socket = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE,
                                              socket)) != nullptr)
    cores.push_back(hwloc_get_nbobjs_inside_cpuset_by_type(
        topology.get(), socket->cpuset, core));
  if (cores.empty()) cores.push_back(count(topology, core));
  return cores;
}

// Checks a host name; brackets and colons are allowed for IPv6 addresses.
void check_name(std::string_view name, const std::string& where) {
  SHEAF_CHECK(!name.empty(), where,
              "a host name is missing; write host or "
              "host:slots");
  const std::size_t bad = name.find_first_of("=,;#@/\\ \t\"'");
  SHEAF_CHECK(bad == std::string_view::npos, where, "host name '", name,
              "' contains '", name[bad], "'");
}

int parse_slots(std::string_view text, std::string_view host,
                const std::string& where) {
  const std::optional<int> slots = parse_count(text);
  SHEAF_CHECK(slots && *slots >= 1, where, "host '", host, "' has '", text,
              "' slots; write a whole number >= 1");
  return *slots;
}

// "a" or "a:2", also "[fe80::1]:2".
HostSlots parse_host(std::string_view item, const std::string& where) {
  const std::size_t bracket = item.rfind(']');
  const std::size_t colon =
      item.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view name = item.substr(0, colon);
  check_name(name, where);
  if (colon == std::string_view::npos) return {std::string(name), 1};
  return {std::string(name), parse_slots(item.substr(colon + 1), name, where)};
}

void add_unique(std::vector<HostSlots>& hosts, HostSlots host,
                const std::string& where) {
  for (const HostSlots& known : hosts)
    SHEAF_CHECK(known.name != host.name, where, "host '", host.name,
                "' is listed twice; list it once with all its slots, such as ",
                host.name, ":", known.slots + host.slots);
  hosts.push_back(std::move(host));
}

HostSlots parse_line(std::string_view line, const std::string& where) {
  const auto items = words(line);
  HostSlots host = parse_host(items[0], where);
  for (std::size_t i = 1; i < items.size(); ++i) {
    const std::size_t equals = items[i].find('=');
    const std::string_view key = items[i].substr(0, equals);
    const bool has_value = equals != std::string_view::npos;
    SHEAF_CHECK(has_value && (key == "slots" || key == "max_slots" ||
                              key == "max-slots"),
                where, "'", items[i], "' is not valid after host '", host.name,
                "'; write slots=N");
    const int slots =
        parse_slots(items[i].substr(equals + 1), host.name, where);
    if (key == "slots") host.slots = slots;
  }
  return host;
}

}  // namespace

HostInfo detect_host() {
  const Topology topology = load_topology();
  HostInfo host;
  host.name = host_name();
  host.socket_cores = cores_by_socket(topology);
  host.cores = count(topology, core_type(topology));
  host.hardware_threads = count(topology, HWLOC_OBJ_PU);
  host.numa_nodes = count(topology, HWLOC_OBJ_NUMANODE);
  host.l2 = cache_of(topology, HWLOC_OBJ_L2CACHE);
  host.l3 = cache_of(topology, HWLOC_OBJ_L3CACHE);
  host.memory_bytes = static_cast<std::int64_t>(
      hwloc_get_root_obj(topology.get())->total_memory);
  return host;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0)
      return std::string(trim(line.substr(line.find(':') + 1)));
  return "unknown";
}

std::vector<HostSlots> parse_host_list(std::string_view text) {
  std::vector<HostSlots> hosts;
  const std::string where = concat("host list '", text, "': ");
  for (const std::string_view item : split(text, ','))
    add_unique(hosts, parse_host(trim(item), where), where);
  return hosts;
}

std::vector<HostSlots> parse_host_file(std::string_view text,
                                       const std::string& file) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    const std::string where = concat(file, ":", ++number, ": ");
    const std::string_view content = trim(line.substr(0, line.find('#')));
    if (content.empty()) continue;
    add_unique(hosts, parse_line(content, where), where);
  }
  SHEAF_CHECK(!hosts.empty(), file,
              ": lists no host; write one per line, "
              "such as 'a slots=2'");
  return hosts;
}

std::vector<HostSlots> read_host_file(const std::string& path) {
  return parse_host_file(read_file(path), path);
}

int total_slots(const std::vector<HostSlots>& hosts) noexcept {
  int total = 0;
  for (const HostSlots& host : hosts) total += host.slots;
  return total;
}

}  // namespace sheaf::topo
