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
  double bound_us = 0;                // 0: there is none
  std::vector<Rival> rivals;
};

// What is the same for all rows.
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

  // Prints it and appends it to the record. Text has one line per row; for
  // programs there is one row per rival, or one without.
  void print(const BenchRow& row);

 private:
  void print_text(const BenchRow& row);
  void print_fields(const Fields& fields);

  RowContext context_;
  std::optional<Table> table_;  // once there is a row
};

}  // namespace sheaf::cli
