#pragma once
// What a worker sends during a step, and when it is ready: buckets of gradients
// and parcels of factors. Follows the rules of bucket_rules.hpp and
// parcel_rules.hpp.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sheaf/plan/format/bucket_rules.hpp"
#include "sheaf/plan/predict/factor_layers.hpp"

namespace sheaf::plan {

struct BucketOptions {
  BucketCaps caps = {};
  bool is_half = false;        // gradients are sent in 16 bits
  bool is_on_devices = false;  // all workers have their gradients on GPUs
  int hosts = 1;
};

// The buckets of gradients, sent in order, each when all of its gradients are
// complete. Gradients become complete approximately from the last parameter to
// the first.
class PlannedBuckets {
 public:
  // Gradients of the layers in `factor_layers` are in no bucket.
  PlannedBuckets(const StepProfile& profile,
                 const std::set<std::string>& factor_layers,
                 const BucketOptions& options);

  bool is_empty() const { return buckets_.empty(); }
  // The number of parameters whose gradients are averaged.
  std::int64_t parameters() const { return parameters_; }
  // Whether a message counts the users of parameters after the last bucket.
  bool counts_users() const { return counts_users_; }

  // The next gradient, in order, is complete.
  void complete_gradient();
  // Takes the next bucket if it is complete, and returns its elements.
  std::optional<std::int64_t> take_complete();
  // Same for any next bucket, at the end of backward.
  std::optional<std::int64_t> take();

 private:
  struct Bucket {
    std::int64_t elements = 0;
    std::size_t missing = 0;  // gradients that are not complete
  };

  std::vector<std::int32_t> bucket_of_;  // by gradient, in order of completion
  std::vector<Bucket> buckets_;
  std::int64_t parameters_ = 0;
  bool counts_users_ = false;
  std::size_t complete_ = 0;  // gradients
  std::size_t next_ = 0;      // bucket
};

// The parcels of layers that send factors. A *side* is the forward or backward
// pass of a slot: 2 slot, or 2 slot + 1. The parcels of a direction are sent in
// order, each when the last of its layers is done.
class PlannedParcels {
 public:
  struct Parcel {
    std::size_t layers = 0;
    double bytes = 0;           // over all workers
    double compression_ns = 0;  // before sending
  };

  PlannedParcels(const std::vector<FactorLayer>& layers,
                 const ExchangePlan& plan, const FactorScale& scale);

  // The layers that send factors. Biases belong to their weights.
  const std::set<std::string>& layers() const { return names_; }
  // The fraction of a slot's backward work that computes the gradient of a
  // weight whose factors are sent; the worker omits it.
  double omitted_part(std::size_t slot) const;
  // Time of the products after everything is received.
  double gradient_ns() const;

  // The work of this side is done.
  void complete_side(std::size_t side);
  // Takes the next parcel of a direction that is ready.
  std::optional<Parcel> take_ready();
  // Takes the next parcel, those of the forward pass first.
  std::optional<Parcel> take();

 private:
  struct Direction {
    Parcels parcels;
    std::vector<bool> is_ready;
    std::size_t next = 0;
  };
  Parcel take_from(std::size_t direction);

  FactorCosts costs_;
  std::vector<Direction> directions_;  // forward, backward
  std::set<std::string> names_;
  std::map<std::size_t, double> omitted_;       // by slot
  std::map<std::size_t, std::size_t> parcels_;  // by side that completes one
};

}  // namespace sheaf::plan
