#pragma once
// The order of the parcels of a pass: first those with inputs, which can be
// sent during forward(), then those with deltas. The order is the same on all
// ranks; a parcel that becomes complete early waits for those before it.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sheaf/parallel/dad/factor_exchange.hpp"

namespace sheaf::parallel {

struct FactorPlan {
  std::vector<Route> routes;        // by parameter
  std::vector<bool> is_bias;        // biases exchanged with their weights
  std::vector<std::int64_t> calls;  // expected calls of the weight per pass
  // The weights of each parcel.
  std::vector<std::vector<std::size_t>> forward;
  std::vector<std::vector<std::size_t>> backward;
};

class ParcelSchedule {
 public:
  // `plan` must outlive this object.
  explicit ParcelSchedule(const FactorPlan& plan);

  struct Next {
    const std::vector<std::size_t>& weights;
    std::size_t number = 0;  // among the parcels of forward() or backward()
    bool is_backward = false;
    bool is_last = false;  // of the pass
  };
  using IsComplete = std::function<bool(std::size_t weight)>;
  // The next parcel with inputs, if it is complete: if all its weights are, or
  // if `all` is set.
  std::optional<Next> next_forward(bool all, const IsComplete& is_complete);
  // The same for deltas. The last parcel lists the remainders, which may arrive
  // until the end of backward(): it is returned only if `all` is set.
  std::optional<Next> next_backward(bool all, const IsComplete& is_complete);
  // The parcel that was returned last has been packed.
  void advance(const Next& parcel);
  // Begins the next pass.
  void restart();

  // The number of jobs of a pass up to this parcel of deltas.
  std::size_t jobs_until(std::size_t backward_parcel) const {
    return plan_.forward.size() + backward_parcel + 1;
  }
  // The number of a parcel among all parcels of the pass.
  std::int64_t place_of(const Next& parcel) const;
  // Whether the parcel with the weight's deltas has been packed.
  bool is_packed(std::size_t weight) const {
    return backward_parcel_[weight] < next_backward_;
  }
  // Whether the deltas of `weight` are packed with those of `other` or later.
  bool is_packed_with_or_after(std::size_t weight, std::size_t other) const {
    return backward_parcel_[other] <= backward_parcel_[weight];
  }

 private:
  const FactorPlan& plan_;
  std::vector<std::size_t> backward_parcel_;  // by weight
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
};

}  // namespace sheaf::parallel
