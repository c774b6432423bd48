#include "sheaf/report/runs/log_file.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::report {
namespace {

using nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double number_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.is_number() ? value.get<double>() : kNone;
}

double number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? kNone : number_of(*found);
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

void add(Rows& rows, const json& object) {
  for (const auto& [key, value] : object.items()) {
    if (!value.is_number() && !value.is_boolean() && !value.is_null()) continue;
    std::vector<double>& column = rows.columns[key];
    column.resize(rows.count, kNone);  // earlier rows lacked the key
    column.push_back(number_of(value));
  }
  ++rows.count;
}

LayerRow layer_row_of(const json& object) {
  LayerRow row{.step = number_at(object, "step"), .layers = {}};
  for (const json& layer : object.at("layers"))
    row.layers.push_back({.name = text_at(layer, "name"),
                          .route = text_at(layer, "route"),
                          .bytes = number_at(layer, "bytes"),
                          .rank = number_at(layer, "rank"),
                          .exchange_ms = number_at(layer, "exchange_ms"),
                          .gradient_ms = number_at(layer, "gradient_ms")});
  return row;
}

void add_line(Log& log, std::string_view line) {
  const json object = json::parse(line);
  SHEAF_CHECK(object.is_object(), "it is not a JSON object");
  const std::string kind = text_at(object, "kind");
  SHEAF_CHECK(!kind.empty(), "it has no \"kind\"");
  if (kind == "layers")
    log.layers.push_back(layer_row_of(object));
  else
    add(log.kinds[kind], object);
}

// Extends every column to the number of rows.
void even_out(Log& log) {
  for (auto& [kind, rows] : log.kinds)
    for (auto& [key, column] : rows.columns) column.resize(rows.count, kNone);
}

}  // namespace

std::vector<double> Rows::get(const std::string& key) const {
  const auto found = columns.find(key);
  return found == columns.end() ? std::vector<double>(count, kNone)
                                : found->second;
}

const Rows& Log::rows(const std::string& kind) const {
  static const Rows none;
  const auto found = kinds.find(kind);
  return found == kinds.end() ? none : found->second;
}

Log read_log(const std::filesystem::path& file) {
  const std::string content = read_file(file);
  const auto lines = split(content, '\n');
  Log log;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (trim(lines[i]).empty()) continue;
    try {
      add_line(log, lines[i]);
    } catch (const std::exception& error) {
      const std::string where = concat(file.string(), ":", i + 1);
      if (i + 1 < lines.size())
        throw IoError(concat(where, ": cannot parse this line: ", error.what(),
                             "; fix or remove it"));
      log.note =
          concat(where, ": the last line is incomplete", " and was skipped");
    }
  }
  even_out(log);
  return log;
}

}  // namespace sheaf::report
