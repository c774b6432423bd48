#pragma once
// Aligns the values of one key over several runs, batch by batch.

#include <span>
#include <string>
#include <vector>

#include "sheaf/base/table.hpp"
#include "sheaf/report/runs/run.hpp"

namespace sheaf::report {

struct CompareOptions {
  std::vector<std::string> keys = {};  // empty: batch_duration
  std::size_t warm_up = 5;             // number of initial batches to ignore
  bool skip_missing = false;           // omit runs that lack a key
};

// The values of the key in one run; NaN for batches without it.
struct ComparedRun {
  std::string label;
  std::vector<double> values;
  double bytes;  // mean sent by rank 0 per batch; NaN: unknown
};

struct Comparison {
  std::string key;
  std::size_t warm_up = 0;
  std::vector<ComparedRun> runs;   // equal number of values, at least one
  std::vector<std::string> notes;  // what was omitted, as sentences
};

// Returns one comparison per key. The first `warm_up` batches of each run are
// dropped; then longer runs are cut to the length of the shortest. Throws
// UsageError if a run lacks a key, with all such runs and the keys that all
// runs share; with skip_missing only if no run has any of the keys.
std::vector<Comparison> compare(std::span<const Run> runs,
                                const CompareOptions& options = {});

// The unit of the key: "ms", "bytes", or "".
std::string unit_of(const std::string& key);

// One row per key and run: batches, median, 95th percentile, total, speedup
// (total of the first run divided by this run's, times only), bytes sent per
// batch.
Table table_of(std::span<const Comparison> comparisons, TableFormat format);

}  // namespace sheaf::report
