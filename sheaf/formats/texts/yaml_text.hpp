#pragma once
// Reads YAML files, of which no byte is trusted.

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <string>

namespace sheaf::formats {

struct YamlSource {
  std::string name;       // of the file; begins every error
  bool has_lines = true;  // false: of one line, such as an option
  // Users write such files: errors are UsageErrors instead of IoErrors.
  bool is_by_user = true;

  // Throws "NAME:LINE: WHAT"; `line` counts from 0, and -1 is no line.
  [[noreturn]] void fail(int line, const std::string& what) const;
};

inline constexpr int kMaxYamlDepth = 64;
inline constexpr std::size_t kMostYamlValues = 200'000;

// Parses `text`. Throws an error of the source, with the line, for anything but
// at most one YAML document in UTF-8, keys that a mapping has twice, control
// characters, values nested deeper than kMaxYamlDepth, and more than
// kMostYamlValues values. An alias counts as all the values that it stands for,
// and no value contains itself: what this returns can be walked recursively.
// An empty document is a null node.
YAML::Node parse_yaml(const std::string& text, const YamlSource& source);

}  // namespace sheaf::formats
