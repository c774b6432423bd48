#pragma once
// Which gradients of a pass have arrived, and which buckets are complete.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sheaf::parallel {

// In a pass, each parameter is marked once: its gradient has arrived, or there
// is none. A bucket is complete when all its parameters are marked. Complete
// buckets are returned in bucket order, which is the same on all ranks.
class GradientArrivals {
 public:
  // `buckets[i]` is the bucket of parameter i.
  explicit GradientArrivals(std::vector<std::size_t> buckets);
  // Replaces the buckets; between passes. The order of arrival stays.
  void set_buckets(std::vector<std::size_t> buckets);

  void begin_pass();
  void end_pass();
  bool is_in_pass() const { return is_in_pass_; }

  void mark_arrived(std::size_t parameter);
  void mark_unused(std::size_t parameter);
  bool is_waiting(std::size_t parameter) const {
    return states_[parameter] == State::kWaiting;
  }
  // False after the end of the pass.
  bool has_arrived(std::size_t parameter) const {
    return states_[parameter] == State::kArrived;
  }

  // The next bucket below `end`, if it is complete. Each bucket of a pass is
  // returned once.
  std::optional<std::size_t> take_complete(std::size_t end);

  // All parameters: those whose gradients have arrived in the last pass, in
  // order of arrival, then the others, last one first.
  std::vector<std::size_t> order() const;

 private:
  enum class State : std::uint8_t { kWaiting, kArrived, kUnused };

  void mark(std::size_t parameter, State state);

  std::vector<std::size_t> buckets_;  // by parameter
  std::vector<State> states_;         // by parameter
  std::vector<std::size_t> missing_;  // number of waiting parameters, by bucket
  std::vector<std::size_t> arrived_;  // parameters in order of arrival
  std::size_t next_ = 0;              // the next bucket to return
  bool is_in_pass_ = false;
};

}  // namespace sheaf::parallel
