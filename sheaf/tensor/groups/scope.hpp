#pragma once
// Named stretches of time, for whoever records what libtorch does.

#include <ATen/record_function.h>

#include <string>

namespace sheaf::tensor {

// From its constructor to its destructor, on this thread. Costs next to nothing
// while nobody records. It is told of also where operators are not, as inside
// a pass of mixed precision.
class Scope {
 public:
  explicit Scope(const char* name, const at::RecordFunctionGuard& = telling())
      : function_(at::RecordScope::USER_SCOPE) {
    if (function_.isActive()) function_.before(name);
  }
  explicit Scope(const std::string& name) : Scope(name.c_str()) {}

 private:
  static at::RecordFunctionGuard telling() {
    return at::RecordFunctionGuard(/*is_enabled=*/true);
  }

  at::RecordFunction function_;
};

}  // namespace sheaf::tensor
