#pragma once
// Gradients that are exchanged together: small ones gathered in one block of
// memory, of which they are views; large ones where they are.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/staging.hpp"

namespace sheaf::parallel {

struct BucketMember {
  at::Tensor parameter;
  std::size_t index = 0;            // among the module's parameters
  bool is_exchanged_alone = false;  // where it is, not in the block
};

class Bucket {
 public:
  // `is_staged`: the block is apart from what the network takes, which it is
  // anyway on a device.
  Bucket(const comm::Group& group, std::vector<BucketMember> members,
         bool is_staged = false);

  const std::vector<BucketMember>& members() const { return members_; }
  std::size_t size() const { return members_.size(); }

  // Of the messages that exchange it.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Before the gradients of a pass. Somebody may have kept gradients of earlier
  // ones, which lie in the block, and have given the parameter none or others:
  // those keep that memory, and the bucket takes another.
  void release_kept();
  // This rank's gradient of a member; returns the tensor that holds it from
  // now on, and the average later: for members of the block their part of it,
  // for others the gradient itself, or a copy if it does not own its memory.
  const at::Tensor& put(std::size_t member, const at::Tensor& gradient,
                        bool owns_memory = true);
  // This rank has none: it gives what it had before, or zeros if undefined.
  void put_nothing(std::size_t member, const at::Tensor& earlier);
  // What put() returned last, until the next clear().
  const at::Tensor& gradient(std::size_t member) const {
    return gradients_[member];
  }
  // Lets gradients that are not in the block go.
  void clear();

  // The block, on the parameters' device; undefined when all members are
  // exchanged alone.
  const at::Tensor& block() const { return block_; }
  // What the network reads and writes: the block itself on the CPU, otherwise
  // memory in the arena that stands for it.
  const at::Tensor& shared() const { return shared_; }
  // Between the two; null where they are one.
  Staging* staging() const { return staging_.get(); }
  // The memory of members outside of the block, each as one row of elements.
  std::vector<at::Tensor> outside() const;
  std::int64_t bytes() const;

 private:
  void allocate();
  bool is_kept() const;

  comm::Group group_;
  bool is_staged_;
  std::string name_;
  std::vector<BucketMember> members_;
  at::Tensor shared_;
  at::Tensor block_;
  std::unique_ptr<Staging> staging_;
  std::vector<at::Tensor> gradients_;  // views, or what put() was given
};

}  // namespace sheaf::parallel
