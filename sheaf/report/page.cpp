#include "sheaf/report/page.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/report/echarts.hpp"
#include "sheaf/report/page_files.hpp"

namespace sheaf::report {
namespace {

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '<')
      safe += "&lt;";
    else if (letter == '&')
      safe += "&amp;";
    else
      safe += letter;
  }
  return safe;
}

// JSON that can stand in a <script>: '<' occurs in texts only, where it may be
// written in this way too.
std::string without_tags(std::string_view json) {
  std::string safe;
  for (const char letter : json)
    if (letter == '<')
      safe += "\\u003c";
    else
      safe += letter;
  return safe;
}

std::string title_of(std::span<const Run> runs, const PageOptions& options) {
  if (!options.title.empty()) return options.title;
  std::string title;
  for (const Run& run : runs.first(std::min<std::size_t>(runs.size(), 4)))
    title += (title.empty() ? "" : ", ") + run.label;
  return runs.size() > 4 ? title + ", ..." : title;
}

// The frame up to the mark goes to `page`, and what is behind it remains.
void fill(std::string& page, std::string_view& frame, std::string_view mark,
          std::string_view content) {
  const std::size_t at = frame.find(mark);
  SHEAF_ASSERT(at != std::string_view::npos, "page.html lacks ", mark);
  page += frame.substr(0, at);
  page += content;
  frame.remove_prefix(at + mark.size());
}

}  // namespace

void check_echarts() {
  SHEAF_CHECK(!echarts_script().empty(),
              "this sheaf was built without ECharts, which draws the charts; "
              "run scripts/install-deps (it needs npm), then configure and "
              "build again, or give -DSHEAF_ECHARTS=<echarts.min.js> to CMake");
}

std::string page_of(std::span<const Run> runs, const PageOptions& options) {
  check_echarts();
  SHEAF_CHECK(!runs.empty(), "there are no runs; give at least one folder");
  std::string_view frame = page_frame();
  std::string page;
  // One after another, so that no mark is looked for in what was put in.
  fill(page, frame, "@TITLE@", html_text(title_of(runs, options)));
  fill(page, frame, "@STYLE@", page_style());
  fill(page, frame, "@TITLE@", html_text(title_of(runs, options)));
  fill(page, frame, "@DATA@", without_tags(page_data_of(runs, options)));
  fill(page, frame, "@ECHARTS@", echarts_script());
  fill(page, frame, "@SCRIPT@", page_script());
  return page.append(frame);
}

}  // namespace sheaf::report
