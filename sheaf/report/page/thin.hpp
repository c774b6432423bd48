#pragma once
// Reduces the length of long series.

#include <span>
#include <vector>

namespace sheaf::report {

// The number of values to merge, so that at most `points` of `count` remain.
std::size_t thinning(std::size_t count, std::size_t points);

// The mean of each group of `every` values, ignoring NaN; NaN if a group has no
// other values.
std::vector<double> thinned(std::span<const double> values, std::size_t every);

}  // namespace sheaf::report
