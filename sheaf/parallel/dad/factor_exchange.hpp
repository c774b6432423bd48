#pragma once
// Exchanges parcels between all ranks. Factors of rank-dad weights are reduced
// to low rank first, and the omitted rest is added to the next pass. The rest
// is kept only after a successful pass: after a pass that failed or contained
// non-finite values, which no rank can use for a step, the rest of earlier
// passes stays.

#include <atomic>
#include <map>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/dad/dad_options.hpp"
#include "sheaf/parallel/dad/factor_parcel.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"

namespace sheaf::parallel {

// The route in terms of a plan.
plan::Route exchange_of(Route route);

struct FactorExchangeOptions {
  Where where = Where::kAllGather;
  WireFormat wire = {};
  LowRankOptions low_rank = {};
  // The root reduces the sum of all ranks' low-rank factors to low rank again
  // before sending it.
  bool is_two_way = false;
};

class FactorExchange {
 public:
  FactorExchange(const comm::Group& group, std::vector<Route> routes,
                 FactorExchangeOptions options);

  // Must be called before the first parcel of a pass, on the thread that will
  // multiply the factors on `device`.
  void begin_pass(const at::Device& device);
  // end_pass() is called after the last parcel, forget_pass() after an error.
  void end_pass();
  void forget_pass();

  // Returns the parcels by rank. A two-way part appears once, in rank 0's
  // parcel. The byte counts of the parts are those sent, in `mine`, and those
  // received, in the result. All ranks must call it, in the same order.
  std::vector<FactorParcel> share(FactorParcel& mine);

  // The rests omitted so far, for checkpoints: gathered from all ranks,
  // complete on rank 0. All ranks must call it.
  NamedTensors gather_feedback() const;
  // Restores the rests on any number of ranks, such that their average is
  // unchanged.
  void load_feedback(NamedTensors saved);

 private:
  using Rests = std::map<BlockKey, Factors>;

  bool is_low_rank(const BlockKey& block) const;
  struct Feedback {
    Rests kept;
    Rests next;  // takes effect at the end of the pass
  };

  void reduce(FactorPart& part, Feedback& feedback);
  std::vector<FactorParcel> share_all(FactorParcel& mine);
  std::vector<FactorParcel> through_root(const std::vector<Numbers>& headers,
                                         const at::Tensor& mine);
  void merge(std::vector<FactorParcel>& parcels);
  void compare_identities(std::vector<FactorParcel>& parcels);
  void check_finite(const std::vector<FactorParcel>& parcels);

  comm::Group group_;
  std::vector<Route> routes_;  // by parameter
  FactorExchangeOptions options_;
  Feedback own_;             // rests of this rank's factors
  Feedback sums_;            // rests of the sum over ranks, on the root
  bool has_rests_ = false;   // whether any weight has a rest
  bool are_finite_ = true;   // whether all factors of this pass are finite
  bool has_warned_ = false;  // about ranks with different matrix products
  std::atomic<int> device_ = -1;
  std::atomic<std::int64_t> identity_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace sheaf::parallel
