#pragma once
// Long series made short.

#include <span>
#include <vector>

namespace sheaf::report {

// How many values become one, so that at most `points` of `count` remain.
std::size_t thinning(std::size_t count, std::size_t points);

// The means of each `every` values, NaN left out; NaN where there is no other.
std::vector<double> thinned(std::span<const double> values, std::size_t every);

}  // namespace sheaf::report
