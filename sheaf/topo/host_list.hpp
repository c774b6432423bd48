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

// "a:2,b:2"; one slot where none is said. UsageError names the faulty item.
std::vector<HostSlots> parse_host_list(std::string_view text);

// One host per line, as "a", "a:2" or "a slots=2"; '#' begins a comment, and
// max_slots=N is read over. `file` stands in errors, with the line's number.
std::vector<HostSlots> parse_host_file(std::string_view text,
                                       const std::string& file);
std::vector<HostSlots> read_host_file(const std::string& path);

int total_slots(const std::vector<HostSlots>& hosts) noexcept;

}  // namespace sheaf::topo
