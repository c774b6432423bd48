#pragma once
// Apache ECharts, which draws the charts of a page.

#include <string_view>

namespace sheaf::report {

// The library as one script, built in; "" where it was not there to build in.
std::string_view echarts_script() noexcept;

}  // namespace sheaf::report
