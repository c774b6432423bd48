#pragma once
// Named stretches of time, for whoever records what libtorch does.

#include <ATen/record_function.h>

#include <string>

namespace sheaf::tensor {

// From its constructor to its destructor, on this thread. Costs next to nothing
// while nobody records.
class Scope {
 public:
  explicit Scope(const char* name) : function_(at::RecordScope::USER_SCOPE) {
    if (function_.isActive()) function_.before(name);
  }
  explicit Scope(const std::string& name) : Scope(name.c_str()) {}

 private:
  at::RecordFunction function_;
};

}  // namespace sheaf::tensor
