#pragma once
// The rows that a sweep prints and records.

#include <optional>
#include <string>
#include <vector>

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

}  // namespace sheaf::cli
