#include "sheaf/train/checkpoint/kept_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace sheaf::train {

KeptBuffers::KeptBuffers(const torch::nn::Module& module) {
  for (const at::Tensor& buffer : module.buffers())
    if (buffer.defined()) buffers_.emplace_back(buffer, buffer.clone());
}

void KeptBuffers::put_back() const {
  const at::NoGradGuard no_grad;
  for (const auto& [buffer, value] : buffers_) buffer.copy_(value);
}

KeptState::KeptState(const torch::nn::Module& module,
                     const torch::Device& device)
    : buffers_(module) {
  keep(at::detail::getDefaultCPUGenerator());
  if (device.is_cuda()) keep(at::globalContext().defaultGenerator(device));
}

KeptState::~KeptState() {
  buffers_.put_back();
  for (auto& [generator, state] : generators_) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

void KeptState::keep(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  generators_.emplace_back(generator, generator.get_state());
}

}  // namespace sheaf::train
