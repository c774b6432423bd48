#pragma once
// One HTML page about one or several runs, with all it needs inside.

#include <span>
#include <string>

#include "sheaf/report/runs/run.hpp"

namespace sheaf::report {

struct PageOptions {
  std::string title = "";   // empty: made of the labels
  std::size_t warm_up = 5;  // first batches that do not count in means
};

// UsageError that says what to install, when the program was built without
// ECharts.
void check_echarts();

// Nothing in the runs' files, whatever they hold, can become part of the
// page's own code.
std::string page_of(std::span<const Run> runs, const PageOptions& options = {});

// What the page's script draws, as JSON. Long series are thinned: each point
// then is the mean of as many batches.
std::string page_data_of(std::span<const Run> runs,
                         const PageOptions& options = {});
constexpr std::size_t kMaxPagePoints = 2000;  // of a series

}  // namespace sheaf::report
