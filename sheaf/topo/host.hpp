#pragma once
// What this host is, and lists of hosts.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/topo/host_list.hpp"

namespace sheaf::topo {

struct Cache {
  int count = 0;
  std::int64_t bytes = 0;  // of one; 0: there is none
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

// Asks hwloc. Counts what this process may use, so that a container or a
// cgroup that allows two cores has two. IoError when hwloc cannot look.
HostInfo detect_host();

std::string processor_name();  // as the system says it, or "unknown"

}  // namespace sheaf::topo
