#pragma once
// The values of a row with their keys, for machine-readable output.

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

// All values of a row, compared with `rival`; if it is null, the `versus`
// fields are empty. The keys are the same for all rows.
Fields fields_of(const BenchRow& row, const RowContext& context,
                 const Rival* rival);

// Cells that do not apply are empty.
Cell algbw_cell(const BenchRow& row);  // GB/s
Cell busbw_cell(const BenchRow& row);  // GB/s
Cell bound_cell(const BenchRow& row);  // fraction of the bound
Cell op_cell(const comm::BaselineCall& call);
Cell root_cell(const comm::BaselineCall& call);
Cell count_cell(const std::optional<std::int64_t>& count);

}  // namespace sheaf::cli
