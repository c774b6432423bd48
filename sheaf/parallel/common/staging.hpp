#pragma once
// Copies between device and host memory that overlap with computations on the
// device.

#include <torch/types.h>

#include <cstddef>
#include <memory>

namespace sheaf::parallel {

// Page-locked (pinned) host memory, which a GPU can copy to and from directly.
namespace host_lock {

// Returns false if the memory cannot be locked, and in builds without CUDA.
// Copies are then still correct, only slower.
bool lock(void* data, std::size_t bytes);
// `data` must have been locked by lock().
void unlock(void* data);

}  // namespace host_lock

// Connects a block on a device with its staging memory on the host; both must
// outlive this object. If the block is on the CPU, the copies are plain copies.
// The host memory is page-locked where possible, so that the device copies it
// directly.
class Staging {
 public:
  Staging(const at::Tensor& block, const at::Tensor& host);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The next to_host() includes all work that this thread has submitted to the
  // device so far.
  void mark();
  // Work that this thread submits to the device from now on runs after the
  // marked work.
  void wait_on_device();
  // Both return when the copy is complete. Any thread may call them.
  void to_host();
  void to_device();

 private:
  struct Side;

  at::Tensor block_;
  at::Tensor host_;
  std::unique_ptr<Side> side_;  // null on the CPU
};

}  // namespace sheaf::parallel
