#pragma once
// Errors about plan.json.

#include "sheaf/base/json_file.hpp"

namespace sheaf::plan {

inline JsonSource plan_source(const std::string& name) {
  return {name, "the file is not a plan, or damaged; write it with sheaf plan"};
}

}  // namespace sheaf::plan
