#include "plain/autocast.hpp"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace differential {
namespace {

#if TORCH_VERSION_MAJOR > 2 || \
    (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
void turn(at::DeviceType device, bool is_on) {
  at::autocast::set_autocast_dtype(device, at::kBFloat16);
  at::autocast::set_autocast_enabled(device, is_on);
}
#else
void turn(at::DeviceType device, bool is_on) {
  if (device == at::kCPU) {
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(is_on);
  } else {
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    at::autocast::set_enabled(is_on);
  }
}
#endif

}  // namespace

Autocast::Autocast(at::DeviceType device, bool is_on)
    : device_(device), is_on_(is_on) {
  if (is_on_) turn(device_, true);
}

Autocast::~Autocast() {
  if (!is_on_) return;
  at::autocast::clear_cache();
  turn(device_, false);
}

}  // namespace differential
