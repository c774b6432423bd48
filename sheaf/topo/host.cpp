#include "sheaf/topo/host.hpp"

#include <hwloc.h>

#include <fstream>
#include <memory>
#include <type_traits>

#include "sheaf/base/error.hpp"
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

}  // namespace sheaf::topo
