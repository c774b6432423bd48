#include "sheaf/report/page/page_files.hpp"

namespace sheaf::report {

std::string_view echarts_script() noexcept { return ""; }

}  // namespace sheaf::report
