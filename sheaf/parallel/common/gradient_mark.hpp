#pragma once
// Detects whether a parameter's gradient was reset or modified, or is a tensor
// that was seen before.

#include <torch/types.h>

#include <cstdint>
#include <optional>

namespace sheaf::parallel {

class GradientMark {
 public:
  // Marks the parameter's current gradient. A missing gradient is set to zeros
  // first.
  void set(const at::Tensor& parameter) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
    gradient_ = gradient;
    version_ = gradient._version();
    // A view shares its version with all tensors on the same memory, so its
    // content is compared instead.
    content_ = gradient.is_view() ? gradient.detach().clone() : at::Tensor();
  }
  void clear() {
    gradient_.reset();
    content_.reset();
  }
  bool is_set() const { return gradient_.defined(); }

  // Whether the gradient was reset or replaced by another tensor.
  bool is_gone(const at::Tensor& parameter) const {
    return !parameter.grad().is_same(gradient_);
  }
  // Whether the gradient was written to.
  bool has_changed() const {
    if (gradient_._version() == version_) return false;
    if (!content_.defined()) return true;
    const at::NoGradGuard no_grad;
    const at::Tensor is_same =
        gradient_.eq(content_).logical_or(gradient_.isnan() & content_.isnan());
    return !is_same.all().item<bool>();
  }
  // Whether a gradient is marked and was neither reset, replaced nor written
  // to.
  bool is_unchanged(const at::Tensor& parameter) const {
    return is_set() && !is_gone(parameter) && !has_changed();
  }

 private:
  at::Tensor gradient_;
  std::int64_t version_ = 0;
  at::Tensor content_;
};

// Refers to a tensor without counting as one of its owners.
class SeenTensor {
 public:
  void set(const at::Tensor& tensor) {
    seen_.emplace(tensor.getIntrusivePtr());
  }
  bool is(const at::Tensor& tensor) const {
    return seen_ && seen_->_unsafe_get_target() == tensor.unsafeGetTensorImpl();
  }

 private:
  std::optional<
      c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>>
      seen_;
};

}  // namespace sheaf::parallel
