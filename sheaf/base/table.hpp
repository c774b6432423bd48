#pragma once
// The one way in which every command prints rows: aligned text for people,
// CSV and JSON lines for programs.

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
  std::string name = "";  // the heading in text: "time"
  std::string unit = "";  // below it: "us"; may be empty
  std::string key = "";   // in CSV and JSON: "time_us"; empty: the name
  Align align = Align::kRight;
  int decimals = 2;     // of a floating-point number in text
  int min_width = 0;    // in text; wider headings and, but for streams, wider
                        // cells widen the column
  bool in_text = true;  // false: for programs only
};

// Nothing, a text, a number or a truth value. Nothing, and a number that is
// not finite, print as "-" (text), an empty field (CSV) and null (JSON).
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
  std::string as_field() const;             // for CSV, quoted where needed
  std::string as_json() const;

 private:
  std::variant<std::monostate, std::string, double, std::int64_t, std::uint64_t,
               bool>
      value_;
};

// Rows are either kept and printed at the end with print(), or printed as they
// come after stream_to(). Not for use by several threads at once.
class Table {
 public:
  // UsageError when two columns have the same key.
  explicit Table(std::vector<Column> columns);

  // From now on each row is printed, and flushed, as it is added, the heading
  // and the rows so far at once. A text column is as wide as its heading or
  // min_width, so a wider cell shifts the rest of its row. `out` must outlive
  // the table's last add_row().
  void stream_to(std::ostream& out, TableFormat format);

  // One cell per column, else UsageError.
  void add_row(std::vector<Cell> cells);

  // The whole table; JSON as one object per line.
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
