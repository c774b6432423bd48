#include "sheaf/report/page/plan_page.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sheaf/report/page/page.hpp"
#include "sheaf/report/page/page_files.hpp"

namespace sheaf::report {
namespace {

using nlohmann::json;

json numbers_by_name(const std::map<std::string, double>& values) {
  json object = json::object();
  for (const auto& [name, value] : values) object[name] = json_number(value);
  return object;
}

json steps_of(const PlanPage& page) {
  json list = json::array();
  for (const PlanStep& one : page.steps)
    list.push_back({{"name", one.name},
                    {"step_ms", json_number(one.step_ms)},
                    {"exchange_ms", json_number(one.exchange_ms)},
                    {"peak_mib", json_numbers(one.peak_mib)},
                    {"indicator", json_number(one.indicator)},
                    {"is_chosen", one.is_chosen}});
  return list;
}

json layers_of(const PlanPage& page) {
  json list = json::array();
  for (const PlanLayer& one : page.layers)
    list.push_back({{"name", one.name},
                    {"op", one.op},
                    {"depth", one.depth},
                    {"device", one.device},
                    {"precision", one.precision},
                    {"reason", one.reason},
                    {"ms", numbers_by_name(one.ms)},
                    {"indicator", numbers_by_name(one.indicator)}});
  return list;
}

json trade_offs_of(const PlanPage& page) {
  json list = json::array();
  for (const PlanTradeOff& one : page.trade_offs)
    list.push_back({{"label", one.label},
                    {"step_ms", json_number(one.step_ms)},
                    {"indicator", json_number(one.indicator)},
                    {"is_kept", one.is_kept}});
  return list;
}

std::vector<PlanBar> longest_bars(std::vector<PlanBar> bars) {
  if (bars.size() <= kMaxPlanBars) return bars;
  std::stable_sort(
      bars.begin(), bars.end(),
      [](const PlanBar& a, const PlanBar& b) { return a.ms > b.ms; });
  bars.resize(kMaxPlanBars);
  return bars;
}

// A bar is an array [lane, begin, length, index of its name, work, is
// critical], to keep the page small: there are thousands of bars.
json json_of(const PlanTimeline& timeline) {
  json names = json::array(), bars = json::array();
  std::map<std::string, std::size_t> numbers;
  for (const PlanBar& one : longest_bars(timeline.bars)) {
    const auto [at, is_new] = numbers.try_emplace(one.name, numbers.size());
    if (is_new) names.push_back(one.name);
    bars.push_back({one.lane, json_number(one.begin_ms), json_number(one.ms),
                    at->second, static_cast<int>(one.work),
                    one.is_critical ? 1 : 0});
  }
  return {{"name", timeline.name},
          {"lanes", timeline.lanes},
          {"step_ms", json_number(timeline.step_ms)},
          {"left_out", timeline.bars.size() - bars.size()},
          {"names", std::move(names)},
          {"bars", std::move(bars)}};
}

json path_of(const PlanPage& page) {
  json list = json::array();
  for (const PlanPathRow& one : page.path)
    list.push_back({{"name", one.name},
                    {"where", one.where},
                    {"work", static_cast<int>(one.work)},
                    {"ms", json_number(one.ms)}});
  return list;
}

json nodes_of(const PlanPage& page) {
  json list = json::array();
  for (const PlanNode& one : page.nodes)
    list.push_back({{"name", one.name},
                    {"op", one.op},
                    {"is_layer", one.is_layer},
                    {"depth", one.depth},
                    {"precisions", one.precisions}});
  return list;
}

}  // namespace

std::string plan_page_data(const PlanPage& page) {
  json timelines = json::array();
  for (const PlanTimeline& one : page.timelines)
    if (!one.bars.empty()) timelines.push_back(json_of(one));
  const json data{{"notes", page.notes},
                  {"devices", page.devices},
                  {"precisions", page.precisions},
                  {"steps", steps_of(page)},
                  {"layers", layers_of(page)},
                  {"trade_offs", trade_offs_of(page)},
                  {"timelines", std::move(timelines)},
                  {"path", path_of(page)},
                  {"nodes", nodes_of(page)},
                  {"edges", page.edges}};
  // Invalid UTF-8 is replaced instead of failing.
  return data.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string plan_page(const PlanPage& page) {
  const std::string style = plan_page_style();
  const std::string data = plan_page_data(page);
  const std::string script = plan_page_script();
  return framed_page({page.title, style, data, script});
}

}  // namespace sheaf::report
