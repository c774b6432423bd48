// Robust least squares. A first line minimises the sum of the absolute
// relative errors (by reweighting: each square is divided by its last absolute
// error), which one wild sample cannot pull away. Samples whose relative error
// is beyond kCutoff robust deviations of that line are dropped, and ordinary
// relative least squares of the rest is the answer.
#include "sheaf/topo/fit.hpp"

#include <algorithm>
#include <cmath>

#include "sheaf/base/error.hpp"

namespace sheaf::topo {
namespace {

constexpr int kReweightings = 50;
constexpr double kCutoff = 4;
// The median absolute deviation of a normal distribution, inverted.
constexpr double kMadToDeviation = 1.4826;
// Errors below are agreement, not noise: nothing is dropped for them.
constexpr double kAgreement = 0.01;

struct Line {
  double start_us;
  double us_per_byte;

  double error(const Sample& sample) const {
    return (sample.time_us - start_us - us_per_byte * sample.bytes) /
           sample.time_us;
  }
};

// Minimises sum weight (t - start - slope x)^2 with start >= 0, slope >= 0.
Line weighted_line(const std::vector<Sample>& samples,
                   const std::vector<double>& weights) {
  double w = 0, x = 0, t = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    w += weights[i];
    x += weights[i] * samples[i].bytes;
    t += weights[i] * samples[i].time_us;
  }
  const double mean_x = x / w, mean_t = t / w;
  double xx = 0, xt = 0, raw_xx = 0, raw_xt = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto& [bytes, time_us] = samples[i];
    xx += weights[i] * (bytes - mean_x) * (bytes - mean_x);
    xt += weights[i] * (bytes - mean_x) * (time_us - mean_t);
    raw_xx += weights[i] * bytes * bytes;
    raw_xt += weights[i] * bytes * time_us;
  }
  const double slope = xx > 0 ? xt / xx : 0;
  if (slope <= 0) return {mean_t, 0};
  const double start = mean_t - slope * mean_x;
  if (start >= 0) return {start, slope};
  return {0, raw_xt / raw_xx};
}

std::vector<double> relative_weights(const std::vector<Sample>& samples) {
  std::vector<double> weights;
  for (const Sample& sample : samples)
    weights.push_back(1 / (sample.time_us * sample.time_us));
  return weights;
}

Line least_absolute_line(const std::vector<Sample>& samples) {
  const std::vector<double> relative = relative_weights(samples);
  std::vector<double> weights = relative;
  Line line = weighted_line(samples, weights);
  for (int i = 0; i < kReweightings; ++i) {
    for (std::size_t k = 0; k < samples.size(); ++k)
      weights[k] =
          relative[k] / std::max(std::abs(line.error(samples[k])), 1e-9);
    line = weighted_line(samples, weights);
  }
  return line;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + (values.size() - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
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
  const Line first = least_absolute_line(samples);
  const std::vector<Sample> kept = without_outliers(samples, first);
  const Line line = weighted_line(kept, relative_weights(kept));
  SHEAF_CHECK(line.us_per_byte > 0,
              "cannot fit a link: the times do not grow with the size; "
              "measure larger messages");
  return {{line.start_us, 1 / (1e3 * line.us_per_byte)},
          root_mean_square(kept, line),
          static_cast<int>(kept.size()),
          static_cast<int>(samples.size() - kept.size())};
}

}  // namespace sheaf::topo
