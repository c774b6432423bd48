#pragma once
// The machine description: machine.json, written by `sheaf bench --fit` and
// read by the selection of algorithms and by the planner.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::topo {

// A message of n bytes takes latency_us + n / (1000 * bandwidth_gbs)
// microseconds; GB is 1e9 bytes.
struct Link {
  double latency_us = 0;
  double bandwidth_gbs = 1;
  bool operator==(const Link&) const = default;
};

// Time of one message of that many bytes, in microseconds.
double message_time_us(const Link& link, double bytes) noexcept;

struct MachineHost {
  std::string name;
  int sockets = 1;
  int cores = 1;
  std::int64_t memory_bytes = 0;  // 0: not known
  bool operator==(const MachineHost&) const = default;
};

// Turning n numbers of one type into another takes ns_per_element * n + ns.
struct MachineCast {
  std::string from;  // "f32"
  std::string to;
  double ns_per_element = 0;
  double ns = 0;
  bool operator==(const MachineCast&) const = default;
};

struct MachineDevice {
  std::string name;
  std::string kind = "cpu";  // or "cuda"
  std::string host;
  std::int64_t memory_bytes = 0;     // 0: not known
  std::vector<MachineCast> casts{};  // by `sheaf bench cast`
  bool operator==(const MachineDevice&) const = default;
};

// Ranks of a host with a core each share caches and memory: work that goes
// through `bytes` of memory takes so many times as long while `ranks` do it.
struct Contention {
  int ranks = 1;
  std::int64_t bytes = 0;
  double slowdown = 1;
  bool operator==(const Contention&) const = default;
};

// The defaults describe a common server with 10 Gbit/s Ethernet, for use
// until something is measured.
struct Machine {
  std::string name = "default";
  std::vector<MachineHost> hosts;
  std::vector<MachineDevice> devices;
  Link shm{0.3, 12};           // a flag, and a copy by one rank of a host
  double shm_memory_gbs = 40;  // all ranks of a host together
  Link network{30, 1.1};       // between hosts; egress of a whole host
  double reduce_gbs = 16;      // input bytes that one core adds
  double message_us = 0.5;     // a core busy with sending one message
  Contention contention{};     // none is known
  bool operator==(const Machine&) const = default;
};

// Reads a description; keys that are missing keep their default. IoError when
// the file cannot be read; UsageError names the file and the key that is
// unknown, of the wrong type or out of range.
Machine load_machine(const std::string& path);
Machine parse_machine(std::string_view json, const std::string& path);

// Writes to a temporary name, then renames: a reader sees the old or the new
// file, never a part of one. IoError names the file; UsageError names a value
// that load_machine would refuse.
void save_machine(const Machine& machine, const std::string& path);
std::string text_of(const Machine& machine);  // as JSON

}  // namespace sheaf::topo
