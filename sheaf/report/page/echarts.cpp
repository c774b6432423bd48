#include "sheaf/report/page/page_files.hpp"

SHEAF_BUILT_IN(sheaf_echarts, SHEAF_ECHARTS_FILE);

namespace sheaf::report {

std::string_view echarts_script() noexcept {
  return SHEAF_BUILT_IN_TEXT(sheaf_echarts);
}

}  // namespace sheaf::report
