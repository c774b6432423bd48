#pragma once

#include <string>

#include "sheaf/plan/graph/operator_map.hpp"

namespace sheaf::cli {

// Reads a YAML file that declares operators unknown to PyTorch:
//
//   operators:
//     - name: mine::product
//       backward: [MineBackward]
//       may_change: true
//
// Throws UsageError with the file, the line and the problem, or IoError if
// the file cannot be read.
plan::CustomOperators read_custom_operators(const std::string& path);

}  // namespace sheaf::cli
