// Builds the figure of a comparison, for `sheaf plot`.
#include "sheaf/report/draw/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sheaf/base/statistics.hpp"

namespace sheaf::report {
namespace {

constexpr std::size_t kMaxPoints = 150;  // per line of the batch panel
constexpr std::size_t kMaxCumulative = 1000;
// Beyond this, the axes would overflow.
constexpr double kLargest = 1e300;

struct Scale {
  double factor;
  std::string unit;
};

Scale scale_of(const std::string& unit, double largest) {
  if (unit == "ms") {
    if (largest < 1) return {1000, "µs"};
    if (largest < 1000) return {1, "ms"};
    if (largest < 6e5) return {1e-3, "s"};
    return {1.0 / 60e3, "min"};
  }
  if (unit == "bytes") {
    if (largest < 10 << 10) return {1, "bytes"};
    if (largest < 10 << 20) return {1.0 / (1 << 10), "KiB"};
    if (largest < 10.0 * (1 << 30)) return {1.0 / (1 << 20), "MiB"};
    return {1.0 / (1 << 30), "GiB"};
  }
  return {1, unit};
}

std::vector<double> sums_of(const std::vector<double>& values) {
  std::vector<double> sums;
  double sum = 0;
  for (double value : values)
    sums.push_back(sum += std::isnan(value) ? 0 : value);
  return sums;
}

double largest_sum(const Comparison& comparison) {
  double largest = 0;
  for (const ComparedRun& run : comparison.runs)
    largest = std::max(largest, sums_of(run.values).back());
  return largest;
}

Panel cumulative_panel(const Comparison& comparison) {
  const Scale scale =
      scale_of(unit_of(comparison.key), largest_sum(comparison));
  Panel panel{"Cumulative", scale.unit, "batch", {}};
  for (const ComparedRun& run : comparison.runs) {
    const std::vector<double> sums = sums_of(run.values);
    const std::size_t every = (sums.size() - 1) / kMaxCumulative + 1;
    Curve curve{static_cast<int>(panel.curves.size()), {}};
    for (std::size_t i = 0; i < sums.size(); ++i)
      if ((i % every == 0 || i + 1 == sums.size()) &&
          std::isfinite(sums[i] * scale.factor))
        curve.points.push_back({static_cast<double>(comparison.warm_up + i),
                                sums[i] * scale.factor});
    panel.curves.push_back(std::move(curve));
  }
  return panel;
}

std::vector<double> numbers_in(const std::vector<double>& values,
                               std::size_t from, std::size_t count) {
  std::vector<double> numbers;
  for (std::size_t i = from; i < std::min(from + count, values.size()); ++i)
    if (std::abs(values[i]) < kLargest) numbers.push_back(values[i]);
  return numbers;
}

Curve curve_of(const ComparedRun& run, const Comparison& comparison,
               std::size_t every, double factor) {
  Curve curve;
  for (std::size_t from = 0; from < run.values.size(); from += every) {
    const std::vector<double> some = numbers_in(run.values, from, every);
    if (some.empty()) continue;
    const double x = static_cast<double>(comparison.warm_up + from) +
                     static_cast<double>(every - 1) / 2;
    curve.points.push_back({x, median(some) * factor});
    if (every > 1)
      curve.band.push_back(
          {percentile(some, 10) * factor, percentile(some, 90) * factor});
  }
  return curve;
}

double typical(const Comparison& comparison) {
  double largest = 0;
  for (const ComparedRun& run : comparison.runs) {
    const auto all = numbers_in(run.values, 0, run.values.size());
    if (!all.empty()) largest = std::max(largest, std::abs(median(all)));
  }
  return largest;
}

Panel batch_panel(const Comparison& comparison, std::size_t every) {
  const Scale scale = scale_of(unit_of(comparison.key), typical(comparison));
  Panel panel{"Each batch", scale.unit, "batch", {}};
  for (const ComparedRun& run : comparison.runs) {
    Curve curve = curve_of(run, comparison, every, scale.factor);
    curve.series = static_cast<int>(panel.curves.size());
    panel.curves.push_back(std::move(curve));
  }
  return panel;
}

std::string footnote_of(const Comparison& comparison, std::size_t every) {
  std::string text;
  if (comparison.warm_up > 0)
    text = fmt::format("First {} batches excluded. ", comparison.warm_up);
  if (every > 1)
    text += fmt::format(
        "Right: median of every {} batches; band: 10th to 90th percentile.",
        every);
  return text;
}

}  // namespace

Figure figure_of(const Comparison& comparison) {
  Figure figure{comparison.key, {}, {}};
  for (const ComparedRun& run : comparison.runs)
    figure.legend.push_back(run.label);
  const std::size_t count = comparison.runs[0].values.size();
  const std::size_t every = (count - 1) / kMaxPoints + 1;
  if (!unit_of(comparison.key).empty())
    figure.panels.push_back(cumulative_panel(comparison));
  figure.panels.push_back(batch_panel(comparison, every));
  figure.footnote = footnote_of(comparison, every);
  return figure;
}

}  // namespace sheaf::report
