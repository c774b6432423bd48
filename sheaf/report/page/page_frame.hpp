#pragma once
// The HTML frame that all pages share, with style, data and scripts inside.

#include <string>
#include <string_view>

namespace sheaf::report {

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
