#pragma once
// A module's buffers on the ranks of a group. They are equal on all ranks after
// a broadcast. What a rank's own forward() then changes, such as the running
// statistics of batch normalization, belongs to that rank until the next
// broadcast; everything else stays equal.

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
  // Those that the module has now; they must be equal on all ranks, or be
  // broadcast before they are compared.
  explicit ModuleBuffers(torch::nn::Module& module);

  const NamedTensors& tensors() const { return tensors_; }
  bool empty() const { return tensors_.empty(); }

  // Those that ranks had changed before the module was, by the old list.
  void inherit(const ModuleBuffers& old);

  // Copies those of `root` to all ranks. All ranks call it.
  void broadcast(const comm::Group& group, int root = 0);

  // Around a forward() of this rank. A forward() without its end goes on until
  // the next begin_forward(), broadcast() or shared().
  void begin_forward();
  void end_forward();

  // Those that must be equal: no forward() of any rank has changed them since
  // the last broadcast. All ranks call it.
  NamedTensors shared(const comm::Group& group) const;

 private:
  // What changes with every write to a tensor.
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
  std::vector<Stamp> before_;  // the forward() under way; empty: none is
};

// To be called by kernels that write to a tensor without raising its version,
// as libtorch's batch normalization does. Any thread may call it.
void note_uncounted_write(const at::Tensor& tensor);

}  // namespace sheaf::parallel
