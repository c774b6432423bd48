#pragma once
// Which of libtorch's operators throws.

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sheaf::tensor {

struct OperatorCall {
  std::string name;                   // without the namespace: "addmm"
  std::vector<at::Tensor> tensors{};  // of its arguments, in order
};

// Watches the operators of this thread while it lives. One at a time in a
// thread; a second one sees nothing.
class FailureProbe {
 public:
  // `on_success` hears of every operator that is not part of another one and
  // has ended well.
  explicit FailureProbe(std::function<void(const OperatorCall&)> on_success);
  ~FailureProbe();
  FailureProbe(const FailureProbe&) = delete;
  FailureProbe& operator=(const FailureProbe&) = delete;

  // The operators that an exception has left, the outermost first.
  const std::vector<OperatorCall>& failed() const { return failed_; }

  // For the callbacks.
  void start() { ++depth_; }
  void end(OperatorCall call, bool has_failed);

 private:
  std::function<void(const OperatorCall&)> on_success_;
  std::optional<at::CallbackHandle> handle_;
  int depth_ = 0;
  std::vector<OperatorCall> failed_;
};

}  // namespace sheaf::tensor
