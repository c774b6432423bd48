#pragma once
// The hardware of this host.

#include <cstdint>
#include <string>
#include <vector>

namespace sheaf::topo {

struct Cache {
  int count = 0;
  std::int64_t bytes = 0;  // size of one cache; 0: there is none
};

struct HostInfo {
  std::string name;
  std::vector<int> socket_cores;  // cores of each socket, by logical index
  int cores = 0;
  int hardware_threads = 0;
  int numa_nodes = 0;
  Cache l2;
  Cache l3;
  std::int64_t memory_bytes = 0;

  int sockets() const { return static_cast<int>(socket_cores.size()); }
};

// Detects the hardware with hwloc. Counts only resources that this process may
// use: in a container or cgroup limited to two cores, the result is two. Throws
// IoError if hwloc fails.
HostInfo detect_host();

std::string processor_name();  // from /proc/cpuinfo, or "unknown"

}  // namespace sheaf::topo
