#pragma once
// Gradients that are exchanged together: one block of memory, of which the
// parameters' gradients are views.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group.hpp"

namespace sheaf::parallel {

struct BucketMember {
  at::Tensor parameter;
  std::size_t index = 0;  // among the module's parameters
};

// The block ends with one number per member: 1 if this rank has a gradient for
// it. Averaged with the rest, they tell all ranks which parameters nobody
// used, without a message of their own.
class Bucket {
 public:
  Bucket(const comm::Group& group, std::vector<BucketMember> members);

  const std::vector<BucketMember>& members() const { return members_; }
  std::size_t size() const { return members_.size(); }
  // The gradient of a member, with its shape and strides.
  const at::Tensor& view(std::size_t member) const { return views_[member]; }
  // Everything that is exchanged, flags included; on the parameters' device.
  const at::Tensor& block() const { return block_; }
  at::Tensor gradients() const { return block_.narrow(0, 0, elements_); }
  // What the network reads and writes: the block itself on the CPU, otherwise
  // memory in the arena that stands for it.
  const at::Tensor& shared() const { return shared_; }
  std::int64_t bytes() const { return block_.nbytes(); }

  void set_used(std::size_t member, bool is_used);
  // After the exchange: the share of ranks that had a gradient.
  double share_used(std::size_t member) const;

 private:
  at::Tensor flag(std::size_t member) const;

  std::vector<BucketMember> members_;
  std::int64_t elements_ = 0;  // without flags
  at::Tensor shared_;
  at::Tensor block_;
  std::vector<at::Tensor> views_;
};

}  // namespace sheaf::parallel
