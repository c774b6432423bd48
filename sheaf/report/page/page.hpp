#pragma once
// Self-contained HTML pages: the frame that all of them share, their data, and
// the report of one or several runs.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/report/runs/run.hpp"

namespace sheaf::report {

struct PageOptions {
  std::string title = "";   // empty: the labels of the runs
  std::size_t warm_up = 5;  // initial batches excluded from means
};

// Throws UsageError with installation instructions if Sheaf was built without
// ECharts.
void check_echarts();

// Texts from the runs' files are escaped, so they cannot become code of the
// page. Throws UsageError if there are no runs, and like check_echarts().
std::string page_of(std::span<const Run> runs, const PageOptions& options = {});

// The data that the page's script draws, as JSON. Long series are thinned: each
// point is then the mean of several batches.
std::string page_data_of(std::span<const Run> runs,
                         const PageOptions& options = {});
constexpr std::size_t kMaxPagePoints = 2000;  // per series

// Parts of such data.

// A number with six digits; null if it is not finite.
nlohmann::json json_number(double value);
nlohmann::json json_numbers(const std::vector<double>& values);

// {"step": [...], "layers": [{name, route, reason, rows, in, out, bytes,
// exchange_ms, gradient_ms, rank: [...]}]}: the routes of routes.json, and
// means over the rows of kind "layers" in log.jsonl; `rank` has one number per
// step. null if the run has neither.
nlohmann::json page_layers_of(const Run& run, std::size_t max_points);

// The number of values to merge, so that at most `points` of `count` remain.
std::size_t thinning(std::size_t count, std::size_t points);

// The mean of each group of `every` values, ignoring NaN; NaN if a group has no
// other values.
std::vector<double> thinned(std::span<const double> values, std::size_t every);

struct PageParts {
  std::string_view title;
  std::string_view style;
  std::string_view data;  // JSON
  std::string_view script;
};

// Title and data are escaped, so they cannot become code of the page. Throws
// UsageError like check_echarts().
std::string framed_page(const PageParts& parts);

}  // namespace sheaf::report
