#pragma once
// Lists of hosts: "a:2,b:2" on the command line, and host files.

#include <string>
#include <string_view>
#include <vector>

namespace sheaf::topo {

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
