#pragma once
// Finds the libtorch operator that throws an exception.

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sheaf::tensor {

struct OperatorCall {
  std::string name;                   // without the namespace: "addmm"
  std::vector<at::Tensor> tensors{};  // tensor arguments, in order
};

// Observes the operators of this thread for its lifetime. At most one probe per
// thread is active; a second one observes nothing.
class FailureProbe {
 public:
  // `on_success` is called after every outermost operator that succeeds.
  explicit FailureProbe(std::function<void(const OperatorCall&)> on_success);
  ~FailureProbe();
  FailureProbe(const FailureProbe&) = delete;
  FailureProbe& operator=(const FailureProbe&) = delete;

  // The operators that ended with an exception, outermost first.
  const std::vector<OperatorCall>& failed() const { return failed_; }

  // Called by the RecordFunction callbacks only.
  void start() { ++depth_; }
  void end(OperatorCall call, bool has_failed);

 private:
  std::function<void(const OperatorCall&)> on_success_;
  std::optional<at::CallbackHandle> handle_;
  int depth_ = 0;
  std::vector<OperatorCall> failed_;
};

}  // namespace sheaf::tensor
