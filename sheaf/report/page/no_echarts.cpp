#include "sheaf/report/page/echarts.hpp"

namespace sheaf::report {

std::string_view echarts_script() noexcept { return ""; }

}  // namespace sheaf::report
