#pragma once
// Copies between a device's memory and the host's, beside the computations of
// the device.

#include <torch/types.h>

#include <memory>

namespace sheaf::parallel {

// Of one block on a device and the memory on the host that stands for it, which
// both outlive it. Where the block is on the CPU, copies are plain ones. Where
// it can, it locks the host's memory, so that the device copies by itself.
class Staging {
 public:
  Staging(const at::Tensor& block, const at::Tensor& host);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // What this thread has given the device until now is in the next to_host().
  void mark();
  // What this thread gives the device from now on comes after that.
  void wait_on_device();
  // Both return when the copy is done. For any thread.
  void to_host();
  void to_device();

 private:
  struct Side;

  at::Tensor block_;
  at::Tensor host_;
  std::unique_ptr<Side> side_;  // none on the CPU
};

}  // namespace sheaf::parallel
