// The data of a report. docs/reference/report.md lists the files that each
// chart needs; missing data is null, which the page's script reports.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "sheaf/base/statistics.hpp"
#include "sheaf/report/page/page.hpp"
#include "sheaf/report/runs/compare.hpp"

namespace sheaf::report {
namespace {

using nlohmann::json;

bool is_no_curve(const std::string& key) {
  return key == "epoch" || key == "batch" || key == "step" || key == "rows";
}

json columns_of(const Rows& rows, std::size_t every) {
  json columns = json::object();
  for (const auto& [key, column] : rows.columns)
    if (!is_no_curve(key)) columns[key] = json_numbers(thinned(column, every));
  return columns;
}

// Training time in seconds at the end of each batch.
std::vector<double> seconds_of(const Rows& batches) {
  std::vector<double> seconds;
  double sum = 0;
  for (double ms : batches.get("batch_duration"))
    seconds.push_back(sum += std::isnan(ms) ? 0 : ms / 1000);
  return seconds;
}

json batches_of(const Rows& rows) {
  if (rows.count == 0) return nullptr;
  const std::size_t every = thinning(rows.count, kMaxPagePoints);
  return {{"every", every},
          {"count", rows.count},
          {"step", json_numbers(thinned(rows.get("step"), every))},
          {"seconds", json_numbers(thinned(seconds_of(rows), every))},
          {"columns", columns_of(rows, every)}};
}

// Training time in seconds at the end of each epoch, from the batches.
std::vector<double> epoch_seconds(const Rows& epochs, const Rows& batches) {
  const std::vector<double> steps = batches.get("step");
  const std::vector<double> seconds = seconds_of(batches);
  std::vector<double> result;
  for (double step : epochs.get("step")) {
    const auto after = std::upper_bound(steps.begin(), steps.end(), step);
    result.push_back(
        after == steps.begin()
            ? std::numeric_limits<double>::quiet_NaN()
            : seconds[static_cast<std::size_t>(after - steps.begin() - 1)]);
  }
  return result;
}

json epochs_of(const Rows& rows, const Rows& batches) {
  if (rows.count == 0) return nullptr;
  return {{"step", json_numbers(rows.get("step"))},
          {"seconds", json_numbers(epoch_seconds(rows, batches))},
          {"columns", columns_of(rows, /*every=*/1)}};
}

// Means, medians and 95th percentiles over the batches after the warm-up.
json statistics_of(const Rows& rows, std::size_t warm_up) {
  json result = json::object();
  if (rows.count <= warm_up) warm_up = 0;
  for (const auto& [key, column] : rows.columns) {
    if (unit_of(key).empty()) continue;
    std::vector<double> values;
    for (std::size_t i = warm_up; i < rows.count; ++i)
      if (!std::isnan(column[i])) values.push_back(column[i]);
    if (values.empty()) continue;
    result[key] = {{"mean", json_number(mean(values))},
                   {"median", json_number(median(values))},
                   {"p95", json_number(percentile(values, 95))}};
  }
  return result;
}

json timeline_of(const Timeline& timeline) {
  if (timeline.is_empty()) return nullptr;
  json events = json::array();
  for (const TimelineEvent& event : timeline.events)
    events.push_back({event.row, json_number(event.start_us),
                      json_number(event.duration_us), event.name,
                      event.category, event.details});
  return {{"rows", timeline.rows},
          {"events", std::move(events)},
          {"duration_us", json_number(timeline.duration_us)},
          {"step", timeline.step},
          {"steps", timeline.steps},
          {"left_out", timeline.left_out}};
}

json summary_of(const Run& run) {
  json summary = json::object();
  for (const auto& [key, value] : run.summary)
    summary[key] = json_number(value);
  return summary;
}

json json_of(const Run& run, const PageOptions& options) {
  const Rows& batches = run.log.rows("batch");
  return {{"label", run.label},
          {"folder", run.folder.string()},
          {"ending", run.ending},
          {"note", run.log.note},
          {"summary", summary_of(run)},
          {"batch", batches_of(batches)},
          {"epoch", epochs_of(run.log.rows("epoch"), batches)},
          {"statistics", statistics_of(batches, options.warm_up)},
          {"layers", page_layers_of(run, kMaxPagePoints)},
          {"timeline", timeline_of(run.timeline)}};
}

// All keys of the runs, in the order of the first run that has them.
std::vector<std::string> config_keys(std::span<const Run> runs) {
  std::vector<std::string> keys;
  std::map<std::string, bool> is_known;
  for (const Run& run : runs)
    for (const auto& [key, value] : run.config)
      if (!is_known[key]) {
        is_known[key] = true;
        keys.push_back(key);
      }
  return keys;
}

// One object per key: {key, differs, values}, with one value per run, null if
// the run lacks the key.
json config_of(std::span<const Run> runs) {
  std::vector<std::map<std::string, std::string>> settings;
  for (const Run& run : runs)
    settings.emplace_back(run.config.begin(), run.config.end());
  json rows = json::array();
  for (const std::string& key : config_keys(runs)) {
    json values = json::array();
    for (const auto& of_run : settings) {
      const auto found = of_run.find(key);
      values.push_back(found == of_run.end() ? json() : json(found->second));
    }
    const bool differs =
        std::any_of(values.begin(), values.end(),
                    [&](const json& value) { return value != values[0]; });
    rows.push_back({{"key", key}, {"differs", differs}, {"values", values}});
  }
  return rows;
}

}  // namespace

std::string page_data_of(std::span<const Run> runs,
                         const PageOptions& options) {
  json data{{"warm_up", options.warm_up},
            {"runs", json::array()},
            {"config", config_of(runs)}};
  for (const Run& run : runs) data["runs"].push_back(json_of(run, options));
  // Invalid UTF-8 is replaced instead of failing.
  return data.dump(-1, ' ', false, json::error_handler_t::replace);
}

json json_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
  if (is_whole) return static_cast<std::int64_t>(value);
  // std::stod would throw for numbers that only denormals can hold.
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

json json_numbers(const std::vector<double>& values) {
  json numbers = json::array();
  for (double value : values) numbers.push_back(json_number(value));
  return numbers;
}

std::size_t thinning(std::size_t count, std::size_t points) {
  return count <= points ? 1 : (count + points - 1) / points;
}

std::vector<double> thinned(std::span<const double> values, std::size_t every) {
  std::vector<double> means;
  for (std::size_t from = 0; from < values.size(); from += every) {
    double sum = 0;
    std::size_t count = 0;
    for (double value :
         values.subspan(from, std::min(every, values.size() - from))) {
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    means.push_back(count > 0 ? sum / static_cast<double>(count)
                              : std::numeric_limits<double>::quiet_NaN());
  }
  return means;
}

}  // namespace sheaf::report
