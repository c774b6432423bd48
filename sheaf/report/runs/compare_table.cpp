// The table of `sheaf plot`.
#include <cmath>
#include <limits>
#include <numeric>

#include "sheaf/base/statistics.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/report/runs/compare.hpp"

namespace sheaf::report {
namespace {

constexpr double kMostBytes = 1e18;  // to be rounded to an integer
constexpr double kNotThere = std::numeric_limits<double>::quiet_NaN();

struct Figures {
  std::size_t batches = 0;
  double median = kNotThere;
  double p95 = kNotThere;
  double total = kNotThere;
};

Figures figures_of(const ComparedRun& run) {
  std::vector<double> values;
  for (double value : run.values)
    if (!std::isnan(value)) values.push_back(value);
  if (values.empty()) return {};
  return {.batches = values.size(),
          .median = median(values),
          .p95 = percentile(values, 95),
          .total = std::accumulate(values.begin(), values.end(), 0.0)};
}

// Bytes with a unit in text output, the number in CSV and JSON.
Cell cell_of(double value, bool is_bytes, TableFormat format) {
  const bool has_text = value >= 0 && value <= kMostBytes;
  if (!is_bytes || format != TableFormat::kText || !has_text) return value;
  return format_bytes(static_cast<std::uint64_t>(std::llround(value)));
}

std::vector<Cell> row_of(const Comparison& comparison, const ComparedRun& run,
                         TableFormat format) {
  const std::string unit = unit_of(comparison.key);
  const bool is_bytes = unit == "bytes";
  const Figures figures = figures_of(run);
  const double first = figures_of(comparison.runs[0]).total;
  const bool has_speed = unit == "ms" && figures.total > 0;
  // A sum of losses or learning rates is meaningless.
  const Cell total =
      unit.empty() ? Cell() : cell_of(figures.total, is_bytes, format);
  return {comparison.key,
          run.label,
          figures.batches,
          cell_of(figures.median, is_bytes, format),
          cell_of(figures.p95, is_bytes, format),
          total,
          unit,
          has_speed ? Cell(first / figures.total) : Cell(),
          cell_of(run.bytes, /*is_bytes=*/true, format)};
}

}  // namespace

Table table_of(std::span<const Comparison> comparisons, TableFormat format) {
  Table table({{.name = "key", .align = Align::kLeft},
               {.name = "run", .align = Align::kLeft},
               {.name = "batches"},
               {.name = "median", .decimals = 3},
               {.name = "p95", .decimals = 3},
               {.name = "total", .decimals = 1},
               {.name = "unit", .align = Align::kLeft},
               {.name = "speed-up", .key = "speed_up"},
               {.name = "bytes/batch", .key = "bytes_per_batch"}});
  for (const Comparison& comparison : comparisons)
    for (const ComparedRun& run : comparison.runs)
      table.add_row(row_of(comparison, run, format));
  return table;
}

}  // namespace sheaf::report
