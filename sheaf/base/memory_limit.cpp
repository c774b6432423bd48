#include <algorithm>
#include <fstream>
#include <string>

#include "sheaf/base/system.hpp"

namespace sheaf {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::uint64_t>;

// The number in a file that contains nothing else; "max" is no number.
Bytes number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? Bytes(value) : std::nullopt;
}

// The number after `name` in a file of lines "NAME NUMBER ...".
Bytes number_after(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  for (std::uint64_t value = 0; file >> word >> value;
       file.ignore(1 << 10, '\n'))
    if (word == name) return value;
  return std::nullopt;
}

Bytes smaller(Bytes a, Bytes b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// The names of files in the folder of a control group, by version of cgroup.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache;  // part of `used` that can be reclaimed, in memory.stat
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

// What the group's limit leaves; nullopt if it has none.
Bytes left_in(const fs::path& folder, const GroupFiles& files) {
  const Bytes limit = number_in(folder / files.limit);
  const Bytes used = number_in(folder / files.used);
  if (!limit || !used) return std::nullopt;
  const std::uint64_t cache =
      number_after(folder / "memory.stat", files.cache).value_or(0);
  const std::uint64_t fixed = *used - std::min(*used, cache);
  return *limit - std::min(*limit, fixed);
}

// A group is limited by itself and by all groups that contain it. In a
// container, its path may be that outside, and its files are in the top folder.
Bytes left_in_all(const fs::path& top, const fs::path& group,
                  const GroupFiles& files) {
  Bytes least = left_in(top, files);
  fs::path folder = top;
  for (const fs::path& part : group.relative_path()) {
    folder /= part;
    least = smaller(least, left_in(folder, files));
  }
  return least;
}

}  // namespace

Bytes available_memory(const fs::path& root) {
  Bytes least = number_after(root / "proc/meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  const fs::path top = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  // "0::/path" in version 2; "4:memory:/path" in version 1.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers =
        "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,")
      least = smaller(least, left_in_all(top, path, kVersion2));
    else if (controllers.find(",memory,") != controllers.npos)
      least = smaller(least, left_in_all(top / "memory", path, kVersion1));
  }
  return least;
}

Bytes available_memory() { return available_memory("/"); }

}  // namespace sheaf
