#include "sheaf/report/page/page.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/report/page/page_files.hpp"
#include "sheaf/report/page/page_frame.hpp"

namespace sheaf::report {
namespace {

std::string title_of(std::span<const Run> runs, const PageOptions& options) {
  if (!options.title.empty()) return options.title;
  std::string title;
  for (const Run& run : runs.first(std::min<std::size_t>(runs.size(), 4)))
    title += (title.empty() ? "" : ", ") + run.label;
  return runs.size() > 4 ? title + ", ..." : title;
}

}  // namespace

std::string page_of(std::span<const Run> runs, const PageOptions& options) {
  check_echarts();
  SHEAF_CHECK(!runs.empty(), "there are no runs; pass at least one folder");
  const std::string title = title_of(runs, options);
  const std::string data = page_data_of(runs, options);
  const std::string script = page_script();
  return framed_page({title, page_style(), data, script});
}

}  // namespace sheaf::report
