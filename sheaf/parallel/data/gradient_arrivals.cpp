#include "sheaf/parallel/data/gradient_arrivals.hpp"

#include <algorithm>
#include <utility>

namespace sheaf::parallel {

GradientArrivals::GradientArrivals(std::vector<std::size_t> buckets)
    : buckets_(std::move(buckets)), states_(buckets_.size()) {}

void GradientArrivals::set_buckets(std::vector<std::size_t> buckets) {
  buckets_ = std::move(buckets);
}

void GradientArrivals::begin_pass() {
  is_in_pass_ = true;
  next_ = 0;
  arrived_.clear();
  missing_.clear();
  for (const std::size_t bucket : buckets_) {
    if (bucket >= missing_.size()) missing_.resize(bucket + 1);
    ++missing_[bucket];
  }
}

void GradientArrivals::end_pass() {
  is_in_pass_ = false;
  std::fill(states_.begin(), states_.end(), State::kWaiting);
}

void GradientArrivals::mark_arrived(std::size_t parameter) {
  mark(parameter, State::kArrived);
  arrived_.push_back(parameter);
}

void GradientArrivals::mark_unused(std::size_t parameter) {
  mark(parameter, State::kUnused);
}

void GradientArrivals::mark(std::size_t parameter, State state) {
  states_[parameter] = state;
  --missing_[buckets_[parameter]];
}

std::optional<std::size_t> GradientArrivals::take_complete(std::size_t end) {
  if (next_ >= std::min(end, missing_.size()) || missing_[next_] > 0)
    return std::nullopt;
  return next_++;
}

std::vector<std::size_t> GradientArrivals::order() const {
  std::vector<std::size_t> order = arrived_;
  std::vector<bool> is_listed(buckets_.size());
  for (const std::size_t i : arrived_) is_listed[i] = true;
  for (std::size_t i = buckets_.size(); i-- > 0;)
    if (!is_listed[i]) order.push_back(i);
  return order;
}

}  // namespace sheaf::parallel
