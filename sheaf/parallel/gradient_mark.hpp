#pragma once
// Detects whether a parameter's gradient was reset or modified.

#include <torch/types.h>

#include <cstdint>

namespace sheaf::parallel {

class GradientMark {
 public:
  // Marks the parameter's gradient as it is, after making zeros if it has none.
  void set(const at::Tensor& parameter) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
    gradient_ = gradient;
    version_ =
        gradient.unsafeGetTensorImpl()->version_counter().current_version();
  }
  void clear() { gradient_.reset(); }
  bool is_set() const { return gradient_.defined(); }

  // It was reset, or replaced by another tensor.
  bool is_gone(const at::Tensor& parameter) const {
    return !parameter.grad().is_same(gradient_);
  }
  // It was written to.
  bool has_changed() const {
    return gradient_.unsafeGetTensorImpl()
               ->version_counter()
               .current_version() != version_;
  }

 private:
  at::Tensor gradient_;
  std::uint32_t version_ = 0;
};

}  // namespace sheaf::parallel
