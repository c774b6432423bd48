// Robust least squares. Among the lines through two of the median times per
// size, the first line is the one with the smallest sum of
// |log(measured / fitted)|, which limits the influence of outliers in either
// direction. Samples too far from that line are dropped, and the remaining ones
// are fitted by least squares with errors relative to the fitted times.
#include "sheaf/topo/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sheaf/base/error.hpp"

namespace sheaf::topo {
namespace {

// Samples beyond this number of robust deviations from the first line are
// dropped.
constexpr double kCutoff = 4;
// Factor from the median absolute deviation to the standard deviation of a
// normal distribution.
constexpr double kMadToDeviation = 1.4826;
// Relative deviations below this value count as agreement, not as noise.
constexpr double kAgreement = 0.01;
// Number of iterations: the weights depend on the line and vice versa.
constexpr int kRefinements = 5;

struct Line {
  double start_us = 0;
  double us_per_byte = 0;

  // Never 0, even for 0 bytes without latency, since it is used as a divisor.
  double at(double bytes) const {
    return std::max(start_us + us_per_byte * bytes, 1e-6);
  }
  double error(const Sample& sample) const {
    return sample.time_us / at(sample.bytes) - 1;
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + (values.size() - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Sample> median_by_size(const std::vector<Sample>& samples) {
  std::map<double, std::vector<double>> times;
  for (const Sample& sample : samples)
    times[sample.bytes].push_back(sample.time_us);
  std::vector<Sample> medians;
  for (const auto& [bytes, values] : times)
    medians.push_back({bytes, median(values)});
  return medians;
}

// The line through both samples or, if that has a negative latency, from zero
// through the second sample.
Line line_through(const Sample& a, const Sample& b) {
  const double slope = (b.time_us - a.time_us) / (b.bytes - a.bytes);
  const double start = a.time_us - slope * a.bytes;
  if (start >= 0) return {start, slope};
  return {0, b.time_us / b.bytes};
}

double sum_of_logs(const std::vector<Sample>& samples, const Line& line) {
  double sum = 0;
  for (const Sample& sample : samples)
    sum += std::abs(std::log(sample.time_us / line.at(sample.bytes)));
  return sum;
}

Line first_line(const std::vector<Sample>& medians) {
  Line best;
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t j = 1; j < medians.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      const Line line = line_through(medians[i], medians[j]);
      if (line.us_per_byte <= 0) continue;
      const double sum = sum_of_logs(medians, line);
      if (sum >= smallest) continue;
      smallest = sum;
      best = line;
    }
  }
  SHEAF_CHECK(best.us_per_byte > 0,
              "cannot fit a link: the times do not grow with the size; "
              "measure larger messages");
  return best;
}

std::vector<Sample> without_outliers(const std::vector<Sample>& samples,
                                     const Line& line) {
  std::vector<double> errors;
  for (const Sample& sample : samples)
    errors.push_back(std::abs(line.error(sample)));
  const double limit =
      kCutoff * std::max(kMadToDeviation * median(errors), kAgreement);
  std::vector<Sample> kept;
  for (const Sample& sample : samples)
    if (std::abs(line.error(sample)) <= limit) kept.push_back(sample);
  return kept;
}

struct Moments {
  double weight = 0, x = 0, t = 0, xx = 0, xt = 0;

  void add(double w, double bytes, double time_us) {
    weight += w;
    x += w * bytes;
    t += w * time_us;
    xx += w * bytes * bytes;
    xt += w * bytes * time_us;
  }
};

// Least squares with errors relative to `line`. Returns `line` unchanged if the
// samples do not determine a better one.
Line refined(const std::vector<Sample>& samples, const Line& line) {
  Moments sums;
  for (const Sample& sample : samples) {
    const double expected_us = line.at(sample.bytes);
    sums.add(1 / (expected_us * expected_us), sample.bytes, sample.time_us);
  }
  const double spread = sums.weight * sums.xx - sums.x * sums.x;
  const double slope = (sums.weight * sums.xt - sums.x * sums.t) / spread;
  if (!(spread > 0 && slope > 0)) return line;
  const double start = (sums.t - slope * sums.x) / sums.weight;
  if (start >= 0) return {start, slope};
  return {0, sums.xt / sums.xx};
}

void check_samples(const std::vector<Sample>& samples) {
  for (const Sample& sample : samples)
    SHEAF_CHECK(std::isfinite(sample.bytes) && sample.bytes >= 0 &&
                    std::isfinite(sample.time_us) && sample.time_us > 0,
                "cannot fit a link: a sample has ", sample.bytes,
                " bytes and took ", sample.time_us,
                " us; bytes must be >= 0 and times > 0");
  const bool has_two_sizes = std::any_of(
      samples.begin(), samples.end(),
      [&](const Sample& sample) { return sample.bytes != samples[0].bytes; });
  SHEAF_CHECK(has_two_sizes, "cannot fit a link: ", samples.size(),
              " samples of fewer than two sizes; measure at least two");
}

double root_mean_square(const std::vector<Sample>& samples, const Line& line) {
  double squares = 0;
  for (const Sample& sample : samples)
    squares += line.error(sample) * line.error(sample);
  return std::sqrt(squares / static_cast<double>(samples.size()));
}

}  // namespace

LinkFit fit_link(const std::vector<Sample>& samples) {
  check_samples(samples);
  Line line = first_line(median_by_size(samples));
  const std::vector<Sample> kept = without_outliers(samples, line);
  for (int i = 0; i < kRefinements; ++i) line = refined(kept, line);
  return {{line.start_us, 1 / (1e3 * line.us_per_byte)},
          root_mean_square(kept, line),
          static_cast<int>(kept.size()),
          static_cast<int>(samples.size() - kept.size())};
}

}  // namespace sheaf::topo
