#pragma once
// Lists of hosts, such as "a:2,b:2", and files with one host per line.

#include <string>
#include <string_view>
#include <vector>

namespace sheaf::topo {

struct HostSlots {
  std::string name;
  int slots = 1;
  bool operator==(const HostSlots&) const = default;
};

// Throws UsageError, which begins with `where`, unless `name` consists of
// letters, digits and .-_:[]% (also of IPv6 addresses), as names must that
// become words of command lines.
void check_host_name(std::string_view name, const std::string& where);

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
