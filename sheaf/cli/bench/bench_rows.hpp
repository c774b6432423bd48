#pragma once
// The rows that a sweep prints, and appends to files under results/ with
// machine, command and date.

#include <optional>
#include <string>
#include <vector>

#include "sheaf/base/table.hpp"
#include "sheaf/cli/bench/bench_plan.hpp"
#include "sheaf/cli/bench/bench_race.hpp"
#include "sheaf/cli/bench/bench_shape.hpp"

namespace sheaf::cli {

struct Rival {
  std::string name;
  Timing timing;
  std::optional<std::int64_t> wrong;
};

struct BenchRow {
  Shape shape;
  std::size_t slots = 1;
  std::string algorithm;
  Timing timing;
  std::optional<std::int64_t> wrong;  // none: not checked
  double bound_us = 0;                // 0: no bound
  std::vector<Rival> rivals;
};

// The values that all rows share.
struct RowContext {
  BenchPlan plan;
  int ranks = 1;
  int hosts = 1;
  std::string record;  // file to append to; empty: none
  std::string command_line;
};

class Fields;

class RowPrinter {
 public:
  explicit RowPrinter(const RowContext& context);

  // Prints the row and appends it to the record. Text output has one line per
  // row; CSV, JSON and the record have one per rival, or one without rivals.
  void print(const BenchRow& row);

 private:
  void print_text(const BenchRow& row);
  void print_fields(const Fields& fields);

  RowContext context_;
  std::optional<Table> table_;  // set by the first row
};

// The values of a row with their keys, for machine-readable output.
class Fields {
 public:
  void add(const char* key, Cell cell);

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<Cell>& cells() const { return cells_; }

 private:
  std::vector<Column> columns_;
  std::vector<Cell> cells_;
};

// All values of a row, compared with `rival`; if it is null, the `versus`
// fields are empty. The keys are the same for all rows.
Fields fields_of(const BenchRow& row, const RowContext& context,
                 const Rival* rival);

// Cells that do not apply are empty.
Cell algbw_cell(const BenchRow& row);  // GB/s
Cell busbw_cell(const BenchRow& row);  // GB/s
Cell bound_cell(const BenchRow& row);  // fraction of the bound
Cell op_cell(const comm::RivalCall& call);
Cell root_cell(const comm::RivalCall& call);
Cell count_cell(const std::optional<std::int64_t>& count);

// Appends the rows to `path` as JSON lines, each with the processor, its
// cores, the command, the commit and the date. Throws IoError with the file's
// name.
void append_record(const std::string& path, const Table& rows,
                   const std::string& command_line);

// Creates `path` and its folder; throws IoError if rows cannot be appended.
void check_appendable(const std::string& path);

// The commit, such as "1a2b3c4d5e6f", with "-dirty" if there are changes; empty
// if there is no git or no repository. The first call starts a process, so make
// it before MPI is initialized.
const std::string& current_commit();

}  // namespace sheaf::cli
