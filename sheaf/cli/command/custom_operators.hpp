#pragma once

#include <string>

#include "sheaf/plan/graph/operator_map.hpp"

namespace sheaf::cli {

// operators:
//   - name: mine::product
//     backward: [MineBackward]
//     may_change: true
// UsageError names the file, the line and what is wrong there.
plan::CustomOperators read_custom_operators(const std::string& path);

}  // namespace sheaf::cli
