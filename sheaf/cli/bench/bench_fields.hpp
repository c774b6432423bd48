#pragma once
// The figures of a row, each with the key that programs know it by.

#include <string>
#include <vector>

#include "sheaf/cli/bench/bench_rows.hpp"

namespace sheaf::cli {

class Fields {
 public:
  void add(const char* key, Cell cell);

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<Cell>& cells() const { return cells_; }

 private:
  std::vector<Column> columns_;
  std::vector<Cell> cells_;
};

// All of a row, compared with `rival`; with none its fields are empty. The
// keys are the same for all rows.
Fields fields_of(const BenchRow& row, const RowContext& context,
                 const Rival* rival);

// Where something does not apply the cell is empty.
Cell algbw_cell(const BenchRow& row);  // GB/s
Cell busbw_cell(const BenchRow& row);  // GB/s
Cell bound_cell(const BenchRow& row);  // fraction of the bound
Cell op_cell(const comm::BaselineCall& call);
Cell root_cell(const comm::BaselineCall& call);
Cell count_cell(const std::optional<std::int64_t>& count);

}  // namespace sheaf::cli
