#include "sheaf/report/page/page.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/report/page/page_files.hpp"

namespace sheaf::report {
namespace {

std::string title_of(std::span<const Run> runs, const PageOptions& options) {
  if (!options.title.empty()) return options.title;
  std::string title;
  for (const Run& run : runs.first(std::min<std::size_t>(runs.size(), 4)))
    title += (title.empty() ? "" : ", ") + run.label;
  return runs.size() > 4 ? title + ", ..." : title;
}

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

// JSON that is safe in a <script>: '<' occurs only in strings, where it can be
// written as an escape sequence.
std::string without_tags(std::string_view json) {
  std::string safe;
  for (const char letter : json)
    if (letter == '<')
      safe += "\\u003c";
    else
      safe += letter;
  return safe;
}

// Appends the frame up to the mark, then `content`, to `page`; `frame` keeps
// the part after the mark.
void fill(std::string& page, std::string_view& frame, std::string_view mark,
          std::string_view content) {
  const std::size_t at = frame.find(mark);
  SHEAF_ASSERT(at != std::string_view::npos, "page.html lacks ", mark);
  page += frame.substr(0, at);
  page += content;
  frame.remove_prefix(at + mark.size());
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

void check_echarts() {
  SHEAF_CHECK(!echarts_script().empty(),
              "this sheaf was built without ECharts, which draws the charts; "
              "run scripts/install-deps (it needs npm), then configure and "
              "build again, or pass -DSHEAF_ECHARTS=<echarts.min.js> to CMake");
}

std::string framed_page(const PageParts& parts) {
  check_echarts();
  std::string_view frame = page_frame();
  std::string page;
  // In order, so that inserted content is not searched for marks.
  fill(page, frame, "@TITLE@", html_text(parts.title));
  fill(page, frame, "@STYLE@", parts.style);
  fill(page, frame, "@TITLE@", html_text(parts.title));
  fill(page, frame, "@DATA@", without_tags(parts.data));
  fill(page, frame, "@ECHARTS@", echarts_script());
  fill(page, frame, "@SCRIPT@", parts.script);
  return page.append(frame);
}

}  // namespace sheaf::report
