#pragma once
// A module's buffers on the ranks of a group. They are equal on all ranks after
// a broadcast. A buffer that a rank's forward() then changes, such as the
// running statistics of batch normalization, may differ between ranks until the
// next broadcast; all other buffers stay equal.

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/agreement.hpp"

namespace sheaf::parallel {

// Not thread-safe.
class ModuleBuffers {
 public:
  ModuleBuffers() = default;
  // The current buffers of `module`. They must be equal on all ranks, or be
  // broadcast before they are compared.
  explicit ModuleBuffers(torch::nn::Module& module);

  const NamedTensors& tensors() const { return tensors_; }
  bool empty() const { return tensors_.empty(); }

  // Takes over which buffers were changed, from the list of the module before
  // it changed.
  void inherit(const ModuleBuffers& old);

  // Copies the buffers of `root` to all ranks. All ranks must call it.
  void broadcast(const comm::Group& group, int root = 0);

  // Called before and after a forward() of this rank. Without end_forward(), a
  // forward() extends to the next begin_forward(), broadcast() or shared().
  void begin_forward();
  void end_forward();

  // The buffers that must be equal: no rank's forward() has changed them since
  // the last broadcast. All ranks must call it.
  NamedTensors shared(const comm::Group& group) const;

 private:
  // Differs after every write to a tensor.
  struct Stamp {
    std::uint64_t version = 0;
    std::uint64_t uncounted = 0;
    bool operator==(const Stamp&) const = default;
  };
  class Watched;
  Stamp stamp_of(std::size_t i) const;
  std::vector<std::int32_t> changed() const;

  NamedTensors tensors_;
  std::shared_ptr<Watched> watched_;  // null: none
  std::vector<bool> changed_;
  std::vector<Stamp> last_;    // after the last broadcast
  std::vector<Stamp> before_;  // at begin_forward(); empty outside forward()
};

// Must be called by kernels that write to a tensor without incrementing its
// version, as libtorch's batch normalization does. Thread-safe.
void note_uncounted_write(const at::Tensor& tensor);

}  // namespace sheaf::parallel
