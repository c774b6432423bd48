#pragma once
// The parameters and buffers that a wrapper knows of its module, and whether
// they are still those of the module.
//
// A module may change after it was wrapped: to() gives parameters another type
// or device, layers are frozen and unfrozen, or replaced. Hooks and buckets of
// the old parameters would then see no gradients, and new buffers would not be
// sent.

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

  // The first parameter that was added, removed, replaced, given another type,
  // device or layout, frozen or unfrozen since, or else the first buffer that
  // was added, removed or replaced: "parameter a.weight"; none as a rule. Fast:
  // for each forward().
  std::optional<std::string> find_change(torch::nn::Module& module) const;

 private:
  std::optional<std::string> find_changed_buffer(
      torch::nn::Module& module) const;

  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    // A new type or device comes with a new one. Null: it was frozen.
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

// All ranks call it with what find_change() has found. Where the module has not
// changed alike on all ranks, they get a UsageError that names it and the
// ranks.
void agree_on_change(const comm::Group& group, const std::string& what);
// Lets errors name the parameters, also on ranks which have not changed.
void name_changes(const NamedTensors& parameters);

}  // namespace sheaf::parallel
