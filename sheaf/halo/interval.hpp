#pragma once
// The half-open interval [begin, end) of integers. It is empty if `end` is not
// greater than `begin`.

#include <algorithm>
#include <cstdint>
#include <ostream>

namespace sheaf::halo {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return std::max<std::int64_t>(0, end - begin); }
  bool is_empty() const { return end <= begin; }
  bool contains(std::int64_t position) const {
    return begin <= position && position < end;
  }
  // An empty interval is contained in every other.
  bool contains(const Interval& other) const {
    return other.is_empty() || (begin <= other.begin && other.end <= end);
  }
  bool operator==(const Interval&) const = default;
};

// The common part. If it is empty, its `end` equals its `begin`.
inline Interval intersect(const Interval& a, const Interval& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

inline Interval shift(const Interval& interval, std::int64_t by) {
  return {interval.begin + by, interval.end + by};
}

inline std::ostream& operator<<(std::ostream& out, const Interval& interval) {
  return out << '[' << interval.begin << ", " << interval.end << ')';
}

}  // namespace sheaf::halo
