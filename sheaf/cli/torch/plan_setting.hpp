#pragma once

#include <string>

namespace sheaf::cli {

// As --set has it. Quoted, for the value is YAML and the name of a file may be
// anything.
inline std::string plan_setting(const std::string& file) {
  std::string quoted;
  for (const char c : file) quoted += c == '\'' ? "''" : std::string(1, c);
  return "plan='" + quoted + "'";
}

}  // namespace sheaf::cli
