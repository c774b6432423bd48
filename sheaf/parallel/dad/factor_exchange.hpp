#pragma once
// Brings the parcels of all ranks to all ranks; of weights that take rank-dad,
// what low rank leaves of them. What it leaves out counts once the pass is
// over: of a pass that failed, or in which a number was not finite, so that no
// rank can take its step, nothing is kept, and what was kept before it stays.

#include <atomic>
#include <map>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/dad/factor_parcel.hpp"

namespace sheaf::parallel {

enum class Route : std::int64_t { kGradient, kDad, kEdad, kRankDad };

struct FactorExchangeOptions {
  Where where = Where::kAllGather;
  WireFormat wire = {};
  LowRankOptions low_rank = {};
  // The root makes the sum of all ranks' low-rank factors one of low rank
  // again before it goes out.
  bool is_two_way = false;
};

class FactorExchange {
 public:
  FactorExchange(const comm::Group& group, std::vector<Route> routes,
                 FactorExchangeOptions options);

  // Before the first parcel of a pass, on the thread that will multiply the
  // factors, on that device.
  void begin_pass(const at::Device& device);
  // After the last one, or after an error.
  void end_pass();
  void forget_pass();

  // The parcels by rank. A two-way part comes once, with rank 0's. Bytes of
  // parts are those sent, in `mine`, and those received, in what it gives.
  // All ranks call it, in the same order.
  std::vector<FactorParcel> share(FactorParcel& mine);

  // What low rank has left out so far, for checkpoints: of all ranks,
  // complete on rank 0. All ranks call it.
  NamedTensors gather_feedback() const;
  // Given to any number of ranks, so that their average stays as it was.
  void load_feedback(NamedTensors saved);

 private:
  using Rests = std::map<BlockKey, Factors>;

  bool is_low_rank(const BlockKey& block) const;
  struct Feedback {
    Rests kept;
    Rests next;  // after this pass
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
  Feedback sums_;            // of the sum of all ranks', on the root
  bool has_rests_ = false;   // of any weight
  bool are_finite_ = true;   // all factors of this pass
  bool has_warned_ = false;  // of ranks that multiply in different ways
  std::atomic<int> device_ = -1;
  std::atomic<std::int64_t> identity_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace sheaf::parallel
