#pragma once
// What all pages have in common: HTML with style, data and scripts inside.

#include <string>
#include <string_view>

namespace sheaf::report {

struct PageParts {
  std::string_view title;
  std::string_view style;
  std::string_view data;  // JSON
  std::string_view script;
};

// Neither title nor data, whatever they hold, can become part of the page's
// own code. UsageError as check_echarts().
std::string framed_page(const PageParts& parts);

}  // namespace sheaf::report
