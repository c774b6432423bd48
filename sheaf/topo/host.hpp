#pragma once
// Hosts: the hardware of this one, and lists such as "a:2,b:2".

#include <cstdint>
#include <string>
#include <string_view>
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

struct HostSlots {
  std::string name;
  int slots = 1;
  bool operator==(const HostSlots&) const = default;
};

// Parses "a:2,b:2"; the default is one slot. Throws UsageError, which names the
// invalid item.
std::vector<HostSlots> parse_host_list(std::string_view text);

// Parses one host per line: "a", "a:2" or "a slots=2". '#' begins a comment,
// and max_slots=N is ignored. Errors name `file` and the line number.
std::vector<HostSlots> parse_host_file(std::string_view text,
                                       const std::string& file);
std::vector<HostSlots> read_host_file(const std::string& path);

int total_slots(const std::vector<HostSlots>& hosts) noexcept;

}  // namespace sheaf::topo
