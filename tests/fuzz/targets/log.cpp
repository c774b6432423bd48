// The files of a run folder that reports read: an input is the content of one,
// after a line "#log", "#summary", "#routes", "#settings" or "#timeline".
// parser: sheaf/report/runs/log_file.cpp sheaf/report/runs/run.cpp
// parser: sheaf/report/runs/timeline.cpp sheaf/train/files/run_log.cpp
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/report/draw/figure.hpp"
#include "sheaf/report/page/page.hpp"
#include "sheaf/report/runs/compare.hpp"
#include "sheaf/report/runs/run.hpp"
#include "sheaf/train/files/run_log.hpp"
#include "tests/fuzz/byte_source.hpp"

namespace sheaf {
namespace {

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const Error&) {
  }
}

void draw_all(const report::Run& run) {
  attempt([&] { report::page_data_of({&run, 1}, {}); });
  report::CompareOptions options;
  options.keys = {"batch_duration", "loss", "bytes_sent"};
  options.warm_up = 0;
  options.skip_missing = true;
  attempt([&] {
    for (const auto& one : report::compare({&run, 1}, options))
      report::svg_of(report::draw(report::figure_of(one)));
  });
}

report::Run run_of(const std::string& kind, const std::string& text) {
  report::Run run;
  if (kind == "#log") run.log = report::parse_log(text, "log.jsonl");
  if (kind == "#routes") run.routes = report::parse_routes(text, "routes");
  if (kind == "#settings") run.config = report::parse_settings(text, "config");
  if (kind == "#summary") report::parse_summary(text, "summary.json", run);
  if (kind == "#timeline") {
    std::istringstream stream(text);
    run.timeline = report::parse_timeline(stream, "trace.json");
  }
  return run;
}

}  // namespace

SHEAF_FUZZ_TARGET(log) {
  const std::string text(fuzz::text_of(input));
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string rest = text.substr(std::min(end + 1, text.size()));
  attempt([&] { draw_all(run_of(text.substr(0, end), rest)); });
  train::parse_summary_file(rest);
}

}  // namespace sheaf
