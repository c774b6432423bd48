#include "sheaf/parallel/dad/parcel_schedule.hpp"

#include <algorithm>

namespace sheaf::parallel {

ParcelSchedule::ParcelSchedule(const FactorPlan& plan)
    : plan_(plan), backward_parcel_(plan.routes.size()) {
  for (std::size_t i = 0; i < plan.backward.size(); ++i)
    for (const std::size_t weight : plan.backward[i])
      backward_parcel_[weight] = i;
}

std::optional<ParcelSchedule::Next> ParcelSchedule::next_forward(
    bool all, const IsComplete& is_complete) {
  if (next_forward_ == plan_.forward.size()) return std::nullopt;
  const auto& weights = plan_.forward[next_forward_];
  if (!all && !std::all_of(weights.begin(), weights.end(), is_complete))
    return std::nullopt;
  return Next{weights, next_forward_, /*is_backward=*/false, /*is_last=*/false};
}

std::optional<ParcelSchedule::Next> ParcelSchedule::next_backward(
    bool all, const IsComplete& is_complete) {
  if (next_backward_ == plan_.backward.size()) return std::nullopt;
  const auto& weights = plan_.backward[next_backward_];
  const bool is_last = next_backward_ + 1 == plan_.backward.size();
  if (!all &&
      (is_last || !std::all_of(weights.begin(), weights.end(), is_complete)))
    return std::nullopt;
  return Next{weights, next_backward_, /*is_backward=*/true, is_last};
}

void ParcelSchedule::advance(const Next& parcel) {
  ++(parcel.is_backward ? next_backward_ : next_forward_);
}

void ParcelSchedule::restart() {
  next_forward_ = 0;
  next_backward_ = 0;
}

std::int64_t ParcelSchedule::place_of(const Next& parcel) const {
  return static_cast<std::int64_t>(
      (parcel.is_backward ? plan_.forward.size() : 0) + parcel.number);
}

}  // namespace sheaf::parallel
