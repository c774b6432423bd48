#pragma once
// Where an axis is cut: part p of P has the positions from cut p to cut p + 1.
// Parts may be of any size, none included.

#include <string>
#include <vector>

#include "sheaf/halo/interval.hpp"

namespace sheaf::halo {

class Cuts {
 public:
  // One part of no size.
  Cuts() : positions_{0, 0} {}
  // P + 1 ascending positions, the first of them 0; UsageError otherwise.
  explicit Cuts(std::vector<std::int64_t> positions);
  // Parts whose sizes differ by one at most, the larger ones first.
  static Cuts balanced(std::int64_t size, int parts);

  std::int64_t size() const { return positions_.back(); }
  int parts() const { return static_cast<int>(positions_.size()) - 1; }
  Interval operator[](int part) const {
    const auto at = static_cast<std::size_t>(part);
    return {positions_[at], positions_[at + 1]};
  }
  const std::vector<std::int64_t>& positions() const { return positions_; }

  // The part that has the position; UsageError when the axis has it not.
  int owner(std::int64_t position) const;
  // The first part that has something of the interval, and the one after the
  // last; parts of no size may lie between.
  std::pair<int, int> owners(const Interval& interval) const;

  std::string text() const;  // "0|14|28"
  bool operator==(const Cuts&) const = default;

 private:
  std::vector<std::int64_t> positions_;
};

}  // namespace sheaf::halo
