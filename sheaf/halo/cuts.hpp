#pragma once
// The partition of an axis: part p of P has the positions from cut p to cut
// p + 1. Parts may be empty.

#include <string>
#include <vector>

#include "sheaf/halo/interval.hpp"

namespace sheaf::halo {

class Cuts {
 public:
  // One empty part.
  Cuts() : positions_{0, 0} {}
  // P + 1 positions in ascending order, the first one 0; throws UsageError
  // otherwise.
  explicit Cuts(std::vector<std::int64_t> positions);
  // Parts whose sizes differ by at most one, larger parts first.
  static Cuts balanced(std::int64_t size, int parts);

  std::int64_t size() const { return positions_.back(); }
  int parts() const { return static_cast<int>(positions_.size()) - 1; }
  Interval operator[](int part) const {
    const auto at = static_cast<std::size_t>(part);
    return {positions_[at], positions_[at + 1]};
  }
  const std::vector<std::int64_t>& positions() const { return positions_; }

  // The part that contains the position. Throws UsageError if it is outside of
  // the axis.
  int owner(std::int64_t position) const;
  // The range of parts that overlap the interval: the first part and one past
  // the last. It may include empty parts.
  std::pair<int, int> owners(const Interval& interval) const;

  std::string text() const;  // "0|14|28"
  bool operator==(const Cuts&) const = default;

 private:
  std::vector<std::int64_t> positions_;
};

}  // namespace sheaf::halo
