#pragma once
// One quantity of several runs, batch by batch, made comparable.

#include <span>
#include <string>
#include <vector>

#include "sheaf/base/table.hpp"
#include "sheaf/report/runs/run.hpp"

namespace sheaf::report {

struct CompareOptions {
  std::vector<std::string> keys = {};  // empty: batch_duration
  std::size_t warm_up = 5;             // first batches that do not count
  bool skip_missing = false;           // draw a key without runs that lack it
};

// A run's values of the key. NaN where a batch has none.
struct ComparedRun {
  std::string label;
  std::vector<double> values;
  double bytes;  // sent by rank 0 in a batch, the mean; NaN: not known
};

struct Comparison {
  std::string key;
  std::size_t warm_up = 0;
  std::vector<ComparedRun> runs;   // all with as many values, at least one
  std::vector<std::string> notes;  // sentences on what was left out
};

// One for each key. The runs lose their first `warm_up` batches, and then
// their last ones, so that all are as long as the shortest. UsageError when a
// run lacks a key, naming all such runs and the keys that all runs have in
// common; with skip_missing only when no run has any of the keys.
std::vector<Comparison> compare(std::span<const Run> runs,
                                const CompareOptions& options = {});

// What the key is measured in: "ms", "bytes", or "".
std::string unit_of(const std::string& key);

// A row per key and run: batches, median, 95th percentile, total, the first
// run's total over this one's (times only), bytes sent in a batch.
Table table_of(std::span<const Comparison> comparisons, TableFormat format);

}  // namespace sheaf::report
