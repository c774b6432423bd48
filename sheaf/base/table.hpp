#pragma once
// Tables, printed the same way by every command: aligned text for people, CSV
// and JSON lines for programs.

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sheaf {

enum class TableFormat { kText, kCsv, kJson };
TableFormat parse_table_format(std::string_view name);  // text, csv, json

enum class Align { kLeft, kRight };

struct Column {
  std::string name = "";  // heading in text output: "time"
  std::string unit = "";  // printed below the heading: "us"; may be empty
  std::string key = "";   // name in CSV and JSON: "time_us"; default: `name`
  Align align = Align::kRight;
  int decimals = 2;     // of floating-point numbers in text output
  int min_width = 0;    // in text output; wider headings and, except when
                        // streaming, wider cells widen the column
  bool in_text = true;  // false: in CSV and JSON only
};

// A text, a number, a boolean or empty. An empty cell and a number that is not
// finite print as "-" (text), an empty field (CSV) and null (JSON).
class Cell {
 public:
  Cell() = default;
  // NOLINTBEGIN(google-explicit-constructor): a row is a list of plain values
  Cell(std::string text) : value_(std::move(text)) {}
  Cell(std::string_view text) : value_(std::string(text)) {}
  Cell(const char* text) : value_(std::string(text)) {}
  Cell(bool truth) : value_(truth) {}
  template <std::signed_integral T>
  Cell(T number) : value_(std::int64_t{number}) {}
  template <std::unsigned_integral T>
  Cell(T number) : value_(std::uint64_t{number}) {}
  template <std::floating_point T>
  Cell(T number) : value_(static_cast<double>(number)) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_empty() const noexcept;
  std::string as_text(int decimals) const;  // for people
  std::string as_field() const;             // for CSV, quoted if needed
  std::string as_json() const;

 private:
  std::variant<std::monostate, std::string, double, std::int64_t, std::uint64_t,
               bool>
      value_;
};

// Rows are either printed all at once by print(), or, after stream_to(), as
// they are added. Not thread-safe.
class Table {
 public:
  // Throws UsageError if two columns have the same key.
  explicit Table(std::vector<Column> columns);

  // Prints the heading and the existing rows now, and every later row as it is
  // added; each is flushed. A text column is as wide as its heading or
  // min_width, so a wider cell shifts the rest of its row. `out` must stay
  // valid until the last add_row().
  void stream_to(std::ostream& out, TableFormat format);

  // Throws UsageError unless `cells` has one cell per column.
  void add_row(std::vector<Cell> cells);

  // Prints the whole table; JSON has one object per line.
  void print(std::ostream& out, TableFormat format) const;

  const std::vector<Column>& columns() const noexcept { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const noexcept { return rows_; }

 private:
  std::vector<std::size_t> heading_widths() const;
  std::vector<std::size_t> full_widths() const;
  void print_heading(std::ostream& out, TableFormat format,
                     const std::vector<std::size_t>& widths) const;
  void print_row(std::ostream& out, TableFormat format,
                 const std::vector<std::size_t>& widths,
                 const std::vector<Cell>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::ostream* stream_ = nullptr;
  TableFormat stream_format_ = TableFormat::kText;
};

}  // namespace sheaf
