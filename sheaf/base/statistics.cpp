#include "sheaf/base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

void check(std::span<const double> values) {
  SHEAF_CHECK(!values.empty(),
              "no values to compute statistics of; measure at least once");
}

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double percentile_of_sorted(std::span<const double> values, double percent) {
  const double place = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above],
                   place - static_cast<double>(below));
}

}  // namespace

double minimum(std::span<const double> values) {
  check(values);
  return *std::min_element(values.begin(), values.end());
}

double maximum(std::span<const double> values) {
  check(values);
  return *std::max_element(values.begin(), values.end());
}

double mean(std::span<const double> values) {
  check(values);
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

double median(std::span<const double> values) { return percentile(values, 50); }

double percentile(std::span<const double> values, double percent) {
  check(values);
  SHEAF_CHECK(percent >= 0 && percent <= 100, "percentile ", percent,
              " is out of range; use 0 to 100");
  return percentile_of_sorted(sorted(values), percent);
}

double standard_deviation(std::span<const double> values) {
  const double centre = mean(values);
  if (values.size() == 1) return 0;
  double squares = 0;
  for (double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double robust_spread(std::span<const double> values) {
  const double centre = median(values);
  std::vector<double> distances;
  for (double value : values) distances.push_back(std::abs(value - centre));
  return 1.4826 * median(distances);
}

Summary summarize(std::span<const double> values) {
  check(values);
  const auto ordered = sorted(values);
  return {.count = values.size(),
          .min = ordered.front(),
          .mean = mean(values),
          .median = percentile_of_sorted(ordered, 50),
          .p99 = percentile_of_sorted(ordered, 99),
          .max = ordered.back(),
          .standard_deviation = standard_deviation(values),
          .robust_spread = robust_spread(values)};
}

}  // namespace sheaf
