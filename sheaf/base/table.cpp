#include "sheaf/base/table.hpp"

#include <algorithm>
#include <array>
#include <ostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::size_t used = display_width(text);
  const std::string space(width > used ? width - used : 0, ' ');
  return align == Align::kLeft ? text + space : space + text;
}

// Prints the fields as one line of text, without trailing spaces.
void print_line(std::ostream& out, std::span<const std::string> fields) {
  const std::string line = join(fields, "  ");
  out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
}

std::string unit_of(const Column& column) {
  return column.unit.empty() ? "" : "(" + column.unit + ")";
}

std::string key_of(const Column& column) {
  return column.key.empty() ? column.name : column.key;
}

}  // namespace

TableFormat parse_table_format(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames{"text", "csv", "json"};
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  SHEAF_CHECK(found != kNames.end(), "unknown format '", name,
              "'; use text, csv or json", did_you_mean(name, kNames));
  return static_cast<TableFormat>(found - kNames.begin());
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> keys;
  for (const Column& column : columns_) keys.push_back(key_of(column));
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  SHEAF_CHECK(twice == keys.end(), "two columns of a table are called '",
              *twice, "'; give each its own key");
}

void Table::stream_to(std::ostream& out, TableFormat format) {
  stream_ = &out;
  stream_format_ = format;
  const auto widths = heading_widths();
  print_heading(out, format, widths);
  for (const auto& row : rows_) print_row(out, format, widths, row);
  out.flush();
}

void Table::add_row(std::vector<Cell> cells) {
  SHEAF_CHECK(cells.size() == columns_.size(), "a table of ", columns_.size(),
              " columns was given a row of ", cells.size(),
              " cells; give one per column (an empty one is Cell())");
  rows_.push_back(std::move(cells));
  if (!stream_) return;
  print_row(*stream_, stream_format_, heading_widths(), rows_.back());
  stream_->flush();
}

void Table::print(std::ostream& out, TableFormat format) const {
  const auto widths = full_widths();
  print_heading(out, format, widths);
  for (const auto& row : rows_) print_row(out, format, widths, row);
}

std::vector<std::size_t> Table::heading_widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_)
    widths.push_back(
        std::max({static_cast<std::size_t>(column.min_width),
                  display_width(column.name), display_width(unit_of(column))}));
  return widths;
}

std::vector<std::size_t> Table::full_widths() const {
  auto widths = heading_widths();
  for (const auto& row : rows_)
    for (std::size_t k = 0; k < columns_.size(); ++k)
      widths[k] = std::max(widths[k],
                           display_width(row[k].as_text(columns_[k].decimals)));
  return widths;
}

void Table::print_heading(std::ostream& out, TableFormat format,
                          const std::vector<std::size_t>& widths) const {
  if (format == TableFormat::kJson) return;
  std::vector<std::string> keys, names, units;
  bool has_units = false;
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const Column& column = columns_[k];
    keys.push_back(Cell(key_of(column)).as_field());
    if (!column.in_text) continue;
    names.push_back(padded(column.name, widths[k], column.align));
    units.push_back(padded(unit_of(column), widths[k], column.align));
    has_units = has_units || !column.unit.empty();
  }
  if (format == TableFormat::kCsv) {
    out << join(keys, ",") << '\n';
    return;
  }
  print_line(out, names);
  if (has_units) print_line(out, units);
}

void Table::print_row(std::ostream& out, TableFormat format,
                      const std::vector<std::size_t>& widths,
                      const std::vector<Cell>& cells) const {
  std::vector<std::string> fields;
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const Column& column = columns_[k];
    if (format == TableFormat::kJson)
      fields.push_back(Cell(key_of(column)).as_json() + ": " +
                       cells[k].as_json());
    else if (format == TableFormat::kCsv)
      fields.push_back(cells[k].as_field());
    else if (column.in_text)
      fields.push_back(
          padded(cells[k].as_text(column.decimals), widths[k], column.align));
  }
  if (format == TableFormat::kJson)
    out << "{" << join(fields, ", ") << "}\n";
  else if (format == TableFormat::kCsv)
    out << join(fields, ",") << '\n';
  else
    print_line(out, fields);
}

}  // namespace sheaf
