#pragma once
// Gradients that are exchanged together. Small gradients are views of one
// contiguous block of memory; large gradients are exchanged in place.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/plan/format/bucket_rules.hpp"

namespace sheaf::parallel {

class Staging;  // common/staging.hpp

struct BucketMember {
  at::Tensor parameter;
  std::size_t index = 0;            // among the module's parameters
  bool is_exchanged_alone = false;  // in place, not in the block
};

struct BucketOptions {
  // The block is separate from the memory that the network uses. On a device
  // this is always the case.
  bool is_staged = false;
  // The block is averaged by NCCL, if it is on a GPU.
  bool uses_nccl = false;
  // Space for a status of each rank, which is exchanged with the block.
  plan::StatusPlace status = plan::StatusPlace::kNone;
};

class Bucket {
 public:
  Bucket(const comm::Group& group, std::vector<BucketMember> members,
         const BucketOptions& options = {});
  ~Bucket();

  const std::vector<BucketMember>& members() const { return members_; }
  std::size_t size() const { return members_.size(); }

  // The name of the messages that exchange the bucket.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Must be called before the gradients of a pass arrive. If the user still
  // holds gradients of an earlier pass, which are views of the block, while the
  // parameters have other gradients or none, those tensors keep the memory and
  // the bucket allocates a new block.
  void release_kept();
  // Stores this rank's gradient of a member. Returns the tensor that holds it
  // from now on, and later the average: for members in the block their part of
  // it, for others the gradient itself, or a copy if it does not own its
  // memory.
  const at::Tensor& put(std::size_t member, const at::Tensor& gradient,
                        bool owns_memory = true);
  // This rank has no gradient of the member: stores `earlier`, or zeros if it
  // is undefined.
  void put_nothing(std::size_t member, const at::Tensor& earlier);
  // The tensor last returned by put(); valid until the next clear().
  const at::Tensor& gradient(std::size_t member) const {
    return gradients_[member];
  }
  // Releases the gradients that are not in the block.
  void clear();

  // Whether the block has space for a status.
  bool has_status() const { return status_at_.has_value(); }
  // Writes this rank's status to shared(). Must be called directly before the
  // exchange, because staging overwrites it.
  void write_status(bool is_set);
  // After the exchange: whether the status was set on any rank.
  bool is_status_set() const;

  // The block, on the parameters' device; undefined if all members are
  // exchanged alone.
  const at::Tensor& block() const { return block_; }
  // The memory that the network reads and writes: the block itself on the CPU,
  // otherwise staging memory in the arena.
  const at::Tensor& shared() const { return shared_; }
  // Copies between block() and shared(); null if both are the same memory.
  Staging* staging() const { return staging_.get(); }
  bool uses_nccl() const { return options_.uses_nccl; }
  // The members outside the block, each flattened to one dimension.
  std::vector<at::Tensor> outside() const;
  std::int64_t bytes() const;

 private:
  void allocate();
  bool is_kept() const;

  comm::Group group_;
  BucketOptions options_;
  std::string name_;
  std::vector<BucketMember> members_;
  at::Tensor shared_;
  at::Tensor block_;
  std::unique_ptr<Staging> staging_;
  // Parts of the block, or tensors given to put().
  std::vector<at::Tensor> gradients_;
  // The element of shared() that holds the status. Not a view, which would
  // count as a reference to the block.
  std::optional<std::int64_t> status_at_;
};

}  // namespace sheaf::parallel
