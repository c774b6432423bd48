#pragma once
// The buckets of a module's parameters: which parameter is where, and the
// memory of its gradient.

#include <torch/types.h>

#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/parameter_placement.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/data/bucket.hpp"
#include "sheaf/plan/format/bucket_rules.hpp"

namespace sheaf::parallel {

struct BucketLayoutOptions {
  plan::BucketCaps caps = {};
  bool takes_outside = false;  // see BucketExchange
  bool keeps_zeros = false;    // see BucketExchange
  bool is_staged = false;      // see ReducerOptions
};

// All ranks of the group must create and rebuild it together. The buckets are
// the same on all ranks, also if their devices differ.
class BucketLayout {
 public:
  // `parameters` must outlive this object.
  BucketLayout(const std::vector<TrainedParameter>& parameters,
               const comm::Group& group, const BucketLayoutOptions& options);

  // Replaces the buckets by those of parameters in this order, and moves the
  // gradients that are in the old ones.
  void rebuild(const std::vector<std::size_t>& order);
  bool is_rebuilt() const { return is_rebuilt_; }

  std::size_t size() const { return buckets_.size(); }
  Bucket& operator[](std::size_t bucket) const { return *buckets_[bucket]; }
  // The bucket of each parameter.
  std::vector<std::size_t> bucket_numbers() const;
  // The last bucket, if it exchanges a status; otherwise null.
  Bucket* status_bucket() const;
  // The sizes of the gradients that are exchanged in place.
  std::vector<std::size_t> sizes_in_place() const;

  // See the functions of Bucket.
  void release_kept();
  void put(std::size_t parameter, const at::Tensor& gradient, bool owns_memory);
  void put_nothing(std::size_t parameter, const at::Tensor& earlier);
  const at::Tensor& gradient(std::size_t parameter) const;
  void clear();

 private:
  struct Place {
    std::size_t bucket = 0;
    std::size_t member = 0;
  };

  std::vector<Placement> find_placements() const;
  bool is_on_host(std::size_t index) const;
  bool goes_alone(std::size_t index) const;
  bool is_exchanged_in_place(std::size_t index) const;
  void make_buckets(const std::vector<std::size_t>& order);
  BucketOptions options_for(std::size_t first_member, bool is_last) const;

  const std::vector<TrainedParameter>& parameters_;
  comm::Group group_;
  BucketLayoutOptions options_;
  std::vector<Placement> placements_;  // by parameter
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Place> places_;  // by parameter
  bool is_rebuilt_ = false;
};

}  // namespace sheaf::parallel
