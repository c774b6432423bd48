#include "sheaf/parallel/common/wrapped_parameters.hpp"

#include <torch/csrc/autograd/variable.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/host/fingerprint.hpp"

namespace sheaf::parallel {
namespace {

std::string change_name(const std::string& what) {
  return concat(what, " has changed since it was wrapped");
}

}  // namespace

WrappedParameters::WrappedParameters(torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& tensor = item.value();
    entries_.push_back(
        {c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
         tensor.requires_grad()
             ? torch::autograd::impl::grad_accumulator(tensor)
             : nullptr,
         tensor.sizes().vec(), tensor.strides().vec()});
    names_.push_back(item.key());
  }
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined()) continue;
    buffers_.emplace_back(item.value().getIntrusivePtr());
    buffer_names_.push_back(item.key());
  }
}

bool WrappedParameters::Entry::is(const at::Tensor& now) const {
  return tensor._unsafe_get_target() == now.unsafeGetTensorImpl() &&
         now.requires_grad() == (accumulator != nullptr) &&
         (!accumulator || torch::autograd::impl::try_get_grad_accumulator(
                              now) == accumulator) &&
         now.sizes() == sizes && now.strides() == strides;
}

std::optional<std::string> WrappedParameters::find_change(
    torch::nn::Module& module) const {
  const auto now = module.named_parameters();
  for (std::size_t i = 0; i < now.size(); ++i)
    if (i >= entries_.size() || now[i].key() != names_[i] ||
        !entries_[i].is(now[i].value()))
      return "parameter " + now[i].key();
  if (now.size() < entries_.size()) return "parameter " + names_[now.size()];
  return find_changed_buffer(module);
}

std::optional<std::string> WrappedParameters::find_changed_buffer(
    torch::nn::Module& module) const {
  std::size_t i = 0;
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined()) continue;
    if (i >= buffers_.size() ||
        buffers_[i]._unsafe_get_target() != item.value().unsafeGetTensorImpl())
      return "buffer " + item.key();
    ++i;
  }
  if (i < buffers_.size()) return "buffer " + buffer_names_[i];
  return {};
}

void agree_on_change(const comm::Group& group, const std::string& what) {
  // Other ranks do not know a parameter that was added on this rank only.
  comm::remember_name(change_name(what));
  std::vector<std::int32_t> nothing{0};
  comm::all_reduce(group, nothing, {.name = change_name(what)}).wait();
}

void name_changes(const NamedTensors& parameters) {
  for (const auto& [name, tensor] : parameters)
    comm::remember_name(change_name("parameter " + name));
}

}  // namespace sheaf::parallel
