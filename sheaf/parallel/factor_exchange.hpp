#pragma once
// Brings the parcels of all ranks to all ranks; of weights that take rank-dad,
// what low rank leaves of them.

#include <map>
#include <vector>

#include "sheaf/comm/group.hpp"
#include "sheaf/parallel/agreement.hpp"
#include "sheaf/parallel/factor_parcel.hpp"

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

  // The parcels by rank. A two-way part comes once, with rank 0's. Bytes of
  // parts are those sent, in `mine`, and those received, in what it gives.
  // All ranks call it, in the same order.
  std::vector<FactorParcel> share(FactorParcel& mine);

  // What low rank has left out so far, for checkpoints: of all ranks,
  // complete on rank 0. All ranks call it.
  NamedTensors gather_feedback() const;
  // Given to any number of ranks, so that their average stays as it was.
  void load_feedback(const NamedTensors& saved);

 private:
  using Rests = std::map<BlockKey, Factors>;

  bool is_low_rank(const BlockKey& block) const;
  void reduce(FactorPart& part, Rests& rests);
  std::vector<FactorParcel> through_root(const std::vector<Numbers>& headers,
                                         const at::Tensor& mine);
  void merge(std::vector<FactorParcel>& parcels);

  comm::Group group_;
  std::vector<Route> routes_;  // by parameter
  FactorExchangeOptions options_;
  Rests own_;   // rests of this rank's factors
  Rests sums_;  // of the sum of all ranks', on the root
  std::uint64_t seed_ = 0;
};

}  // namespace sheaf::parallel
