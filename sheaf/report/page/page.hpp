#pragma once
// Self-contained HTML pages: the frame that all of them share, and the report
// of one or several runs.

#include <span>
#include <string>
#include <string_view>

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
