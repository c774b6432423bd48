#pragma once
// The machine description: machine.json, written by `sheaf bench --fit` and
// used by the selection of algorithms and by the planner.

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

// Time of one message of `bytes` bytes, in microseconds.
double message_time_us(const Link& link, double bytes) noexcept;

struct MachineHost {
  std::string name;
  int sockets = 1;
  int cores = 1;
  std::int64_t memory_bytes = 0;  // 0: unknown
  bool operator==(const MachineHost&) const = default;
};

// Casting n elements takes ns_per_element * n + ns nanoseconds.
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
  std::int64_t memory_bytes = 0;     // 0: unknown
  std::vector<MachineCast> casts{};  // measured by `sheaf bench cast`
  bool operator==(const MachineDevice&) const = default;
};

// Ranks of a host with one core each share caches and memory: work on `bytes`
// of memory takes `slowdown` times as long while `ranks` ranks do it.
struct Contention {
  int ranks = 1;
  std::int64_t bytes = 0;
  double slowdown = 1;
  bool operator==(const Contention&) const = default;
};

// The defaults describe a common server with 10 Gbit/s Ethernet and are used
// until the machine is measured.
struct Machine {
  std::string name = "default";
  std::vector<MachineHost> hosts;
  std::vector<MachineDevice> devices;
  Link shm{0.3, 12};           // setting a flag, and a copy by one rank
  double shm_memory_gbs = 40;  // all ranks of a host together
  Link network{30, 1.1};       // between hosts; egress of a whole host
  double reduce_gbs = 16;      // input bytes that one core adds
  double message_us = 0.5;     // time of a core to send one message
  Contention contention{};     // default: none
  bool operator==(const Machine&) const = default;
};

// Reads a machine description; missing keys keep their defaults. Throws IoError
// if the file cannot be read, and UsageError, which names the file and the key,
// if a key is unknown, of the wrong type or out of range.
Machine load_machine(const std::string& path);
Machine parse_machine(std::string_view json, const std::string& path);

// Replaces the file atomically. Throws IoError, which names the file, and
// UsageError, which names the key, if load_machine() would reject a value.
void save_machine(const Machine& machine, const std::string& path);
std::string text_of(const Machine& machine);  // as JSON

}  // namespace sheaf::topo
