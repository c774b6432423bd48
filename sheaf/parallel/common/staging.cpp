#include "sheaf/parallel/common/staging.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace sheaf::parallel {

// A separate stream for copies, and the event that it waits for.
struct Staging::Side {
  explicit Side(const at::Device& device)
      : streams(device.type()),
        stream(streams.getStreamFromGlobalPool(device, false)),
        done(device.type()) {}

  c10::impl::VirtualGuardImpl streams;
  c10::Stream stream;
  c10::Event done;
  bool is_locked = false;
};

Staging::Staging(const at::Tensor& block, const at::Tensor& host)
    : block_(block), host_(host) {
  if (block.device().is_cpu()) return;
  const c10::DeviceGuard guard(block.device());
  side_ = std::make_unique<Side>(block.device());
  side_->is_locked = host_lock::lock(host.data_ptr(), host.nbytes());
}

Staging::~Staging() {
  if (side_ && side_->is_locked) host_lock::unlock(host_.data_ptr());
}

void Staging::mark() {
  if (!side_) return;
  const c10::DeviceGuard guard(block_.device());
  side_->done.record(side_->streams.getStream(block_.device()));
}

void Staging::wait_on_device() {
  if (side_) side_->done.block(side_->streams.getStream(block_.device()));
}

void Staging::to_host() {
  const at::NoGradGuard no_grad;
  if (!side_) {
    host_.copy_(block_);
    return;
  }
  const c10::StreamGuard guard(side_->stream);
  side_->done.block(side_->stream);
  host_.copy_(block_, /*non_blocking=*/true);
  side_->streams.synchronizeStream(side_->stream);
}

void Staging::to_device() {
  const at::NoGradGuard no_grad;
  if (!side_) {
    block_.copy_(host_);
    return;
  }
  const c10::StreamGuard guard(side_->stream);
  block_.copy_(host_, /*non_blocking=*/true);
  side_->streams.synchronizeStream(side_->stream);
}

}  // namespace sheaf::parallel
