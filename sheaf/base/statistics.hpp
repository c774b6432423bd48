#pragma once
// Statistics of a few measurements. An empty set of values is a UsageError.

#include <cstddef>
#include <span>

namespace sheaf {

double minimum(std::span<const double> values);
double maximum(std::span<const double> values);
double mean(std::span<const double> values);
double median(std::span<const double> values);

// `percent` from 0 (the minimum) to 100 (the maximum), interpolated linearly
// between the two nearest values.
double percentile(std::span<const double> values, double percent);

// Sample standard deviation (divisor n - 1); 0 for one value.
double standard_deviation(std::span<const double> values);

// Scaled median absolute deviation: 1.4826 times the median distance from the
// median. For normally distributed values it estimates the standard deviation,
// and up to half of the values may be outliers without affecting it much.
double robust_spread(std::span<const double> values);

struct Summary {
  std::size_t count = 0;
  double min = 0;
  double mean = 0;
  double median = 0;
  double p99 = 0;
  double max = 0;
  double standard_deviation = 0;
  double robust_spread = 0;
};
Summary summarize(std::span<const double> values);

}  // namespace sheaf
