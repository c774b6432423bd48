#include "sheaf/train/step/network.hpp"

#include <ATen/autocast_mode.h>

#include <type_traits>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/train/setup/network_setup.hpp"
#include "sheaf/train/setup/plan_setup.hpp"
#include "sheaf/train/step/finite.hpp"

// Recent libtorch versions have one function for all devices, older ones one
// function per device. Calls to functions that a version lacks resolve to
// these, which do nothing.
namespace sheaf_no_autocast {
struct Nothing {};
template <class... Ignored>
Nothing set_autocast_enabled(const Ignored&...) {
  return {};
}
template <class... Ignored>
Nothing set_autocast_dtype(const Ignored&...) {
  return {};
}
template <class... Ignored>
Nothing set_cpu_enabled(const Ignored&...) {
  return {};
}
template <class... Ignored>
Nothing set_enabled(const Ignored&...) {
  return {};
}
template <class... Ignored>
Nothing set_autocast_cpu_dtype(const Ignored&...) {
  return {};
}
template <class... Ignored>
Nothing set_autocast_gpu_dtype(const Ignored&...) {
  return {};
}
}  // namespace sheaf_no_autocast

namespace sheaf::train {
namespace {

// Overload resolution prefers libtorch's non-template functions to the
// templates above.
void switch_autocast(torch::DeviceType device, bool is_on) {
  using namespace at::autocast;
  using namespace sheaf_no_autocast;
  constexpr bool has_one_for_all =
      !std::is_same_v<decltype(set_autocast_enabled(device, is_on)), Nothing>;
  const torch::ScalarType type = torch::kBFloat16;
  if constexpr (has_one_for_all) {
    set_autocast_dtype(device, type);
    set_autocast_enabled(device, is_on);
  } else if (device == torch::kCPU) {
    set_autocast_cpu_dtype(type);
    set_cpu_enabled(is_on);
  } else {
    set_autocast_gpu_dtype(type);
    set_enabled(is_on);
  }
}

}  // namespace

Autocast::Autocast(torch::DeviceType device, bool is_on)
    : device_(device), is_on_(is_on) {
  if (is_on_) switch_autocast(device_, true);
}

Autocast::~Autocast() {
  if (!is_on_) return;
  switch_autocast(device_, false);
  at::autocast::clear_cache();  // weights change before the next use
}

Network::Network(const RunConfig& config, Model model, const comm::Group& group)
    : model_(std::move(model)),
      device_(device_of_rank(config, group)),
      type_(config.precision == "f64" ? torch::kDouble : torch::kFloat),
      is_bf16_(config.precision == "bf16") {
  model_.module->to(device_, type_);
  if (config.parallel.sync_batchnorm)
    parallel::use_sync_batch_norm(*model_.module, group);
}

bool Network::use_plan(const RunConfig& config, const comm::Group& group) {
  infinite_buffers_ = find_infinite_buffers();
  if (config.plan.empty()) return false;
  precision_.emplace(*model_.module, plan_for_all(config, group, device_));
  // All ranks scale the loss if one needs it, because their gradients are
  // summed.
  std::vector<std::int32_t> needing{precision_->needs_loss_scale() ? 1 : 0};
  comm::all_reduce(group, needing, {.name = "loss scale of the plan"}).wait();
  return needing[0] > 0;
}

std::unique_ptr<parallel::MixedPrecision::Scope> Network::plan_scope() {
  using Scope = parallel::MixedPrecision::Scope;
  return precision_ ? std::make_unique<Scope>(*precision_) : nullptr;
}

std::set<std::string> Network::find_infinite_buffers() const {
  const auto parameters = model_.module->named_parameters();
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensor::state_dict(*model_.module))
    if (!parameters.contains(name) && !is_finite(tensor)) names.insert(name);
  return names;
}

std::string Network::find_non_finite_weight() const {
  for (const auto& [name, tensor] : tensor::state_dict(*model_.module))
    if (!infinite_buffers_.contains(name) && !is_finite(tensor)) return name;
  return "";
}

}  // namespace sheaf::train
