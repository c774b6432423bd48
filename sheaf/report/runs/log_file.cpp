#include "sheaf/report/runs/log_file.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::report {
namespace {

using nlohmann::json;

constexpr std::size_t kFewCells = 1 << 16;
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

bool is_in_column(const json& value) {
  return value.is_number() || value.is_boolean() || value.is_null();
}

// The columns of a kind are as long as it has rows. Where most rows lack most
// keys, they would take far more memory than the file.
class CellBudget {
 public:
  explicit CellBudget(std::size_t most) : most_(most), left_(most) {}

  void take(const Rows& rows, const json& object, const JsonSource& source) {
    std::size_t columns = rows.columns.size();
    for (const auto& [key, value] : object.items())
      columns += is_in_column(value) && !rows.has(key);
    const std::size_t more =
        columns * (rows.count + 1) - rows.columns.size() * rows.count;
    if (more > left_)
      source.fail(
          "up to here, the rows have too many different keys, most of "
          "which most rows lack");
    left_ -= more;
  }

  // The page has a value for each layer and row.
  void take_layers(const std::vector<LayerRow>& rows,
                   const JsonSource& source) {
    for (const LayerUse& layer : rows.back().layers) names_.insert(layer.name);
    if (names_.size() * rows.size() > most_)
      source.fail(
          "up to here, the rows have too many different layers, most "
          "of which most rows lack");
  }

 private:
  std::size_t most_;
  std::size_t left_;
  std::set<std::string> names_;
};

void add(Rows& rows, const json& object) {
  for (const auto& [key, value] : object.items()) {
    if (!is_in_column(value)) continue;
    std::vector<double>& column = rows.columns[key];
    column.resize(rows.count, kNone);  // earlier rows lacked the key
    column.push_back(number_of(value));
  }
  ++rows.count;
}

LayerRow layer_row_of(const JsonValue& row) {
  LayerRow result{.step = number_at(row.json(), "step"), .layers = {}};
  for (const JsonValue& item : row.at("layers").items()) {
    if (!item.is_object()) item.fail("must be an object");
    const json& layer = item.json();
    result.layers.push_back({.name = text_at(layer, "name"),
                             .route = text_at(layer, "route"),
                             .bytes = number_at(layer, "bytes"),
                             .rank = number_at(layer, "rank"),
                             .exchange_ms = number_at(layer, "exchange_ms"),
                             .gradient_ms = number_at(layer, "gradient_ms")});
  }
  return result;
}

void add_row(Log& log, const JsonValue& row, const std::string& kind,
             CellBudget& budget, const JsonSource& source) {
  if (kind == "layers") {
    log.layers.push_back(layer_row_of(row));
    budget.take_layers(log.layers, source);
    return;
  }
  Rows& rows = log.kinds[kind];
  budget.take(rows, row.json(), source);
  add(rows, row.json());
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

Log parse_log(std::string_view content, const std::string& file) {
  // A key, its quotes and a value take more bytes of a row than one.
  CellBudget budget(kFewCells + content.size());
  const auto lines = split(content, '\n');
  Log log;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (trim(lines[i]).empty()) continue;
    const JsonSource source{concat(file, ":", i + 1), "fix or remove this line",
                            /*is_by_user=*/false, /*has_lines=*/false};
    json object;
    std::string kind;
    try {
      object = parse_json(lines[i], source);
      kind = JsonValue(object, source).at("kind").text();
      if (kind.empty()) source.fail("key 'kind' is empty");
    } catch (const IoError&) {
      if (i + 1 < lines.size()) throw;
      log.note =
          concat(source.name, ": the last line is incomplete and was skipped");
      break;
    }
    add_row(log, JsonValue(object, source), kind, budget, source);
  }
  even_out(log);
  return log;
}

Log read_log(const std::filesystem::path& file) {
  return parse_log(read_file(file), file.string());
}

}  // namespace sheaf::report
