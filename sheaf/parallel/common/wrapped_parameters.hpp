#pragma once
// The parameters and buffers that a wrapper knows of its module, and whether
// the module still has them.
//
// A module may change after it was wrapped: to() changes the type or device of
// parameters, and layers are frozen, unfrozen or replaced. Hooks and buckets of
// the old parameters would then receive no gradients, and new buffers would not
// be broadcast.

#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/agreement.hpp"

namespace sheaf::parallel {

class WrappedParameters {
 public:
  explicit WrappedParameters(torch::nn::Module& module);

  // Returns the first parameter that was added, removed, replaced, frozen or
  // unfrozen, or given another type, device or layout; otherwise the first
  // buffer that was added, removed or replaced. Example: "parameter a.weight".
  // Usually returns nothing. Fast enough for each forward().
  std::optional<std::string> find_change(torch::nn::Module& module) const;

 private:
  std::optional<std::string> find_changed_buffer(
      torch::nn::Module& module) const;

  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    // Replaced when the type or device changes. Null if the parameter was
    // frozen.
    std::shared_ptr<torch::autograd::Node> accumulator;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;

    bool is(const at::Tensor& now) const;
  };
  std::vector<Entry> entries_;
  std::vector<std::string> names_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> buffers_;
  std::vector<std::string> buffer_names_;
};

// All ranks must call it with the result of find_change(). Throws a UsageError
// that contains the change and the ranks, unless the module has changed in the
// same way on all ranks.
void agree_on_change(const comm::Group& group, const std::string& what);
// Registers the parameters' names, so that errors can contain them also on
// ranks whose module has not changed.
void name_changes(const NamedTensors& parameters);

}  // namespace sheaf::parallel
