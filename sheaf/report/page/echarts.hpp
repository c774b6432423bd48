#pragma once
// Apache ECharts, which draws the charts of the reports.

#include <string_view>

namespace sheaf::report {

// The library as one script; "" if Sheaf was built without it.
std::string_view echarts_script() noexcept;

}  // namespace sheaf::report
