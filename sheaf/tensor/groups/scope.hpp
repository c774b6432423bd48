#pragma once
// Named intervals, visible to libtorch's profilers and Sheaf's recorders.

#include <ATen/record_function.h>

#include <string>

namespace sheaf::tensor {

// Marks the interval from its construction to its destruction on this thread.
// Almost free while nothing records. It is reported even where operators are
// not, such as inside a mixed-precision pass.
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
