#pragma once

#include <string>

namespace sheaf::cli {

// The plan's file name as an argument of --set. It is quoted, because the value
// is YAML and a file name may contain any character.
inline std::string plan_setting(const std::string& file) {
  std::string quoted;
  for (const char c : file) quoted += c == '\'' ? "''" : std::string(1, c);
  return "plan='" + quoted + "'";
}

}  // namespace sheaf::cli
