#include "sheaf/train/setup/autocast.hpp"

#include <ATen/autocast_mode.h>

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

}  // namespace sheaf::train
