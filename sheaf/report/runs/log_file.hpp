#pragma once
// log.jsonl of a run: one JSON object per line, see docs/train.md.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace sheaf::report {

// The rows of one kind by column: columns.at(key)[i] is what row i has, NaN
// where it has no number. True and false are 1 and 0; texts are left out.
struct Rows {
  std::size_t count = 0;
  std::map<std::string, std::vector<double>> columns;

  bool has(const std::string& key) const { return columns.count(key) != 0; }
  // NaN in every row where there is no such key.
  std::vector<double> get(const std::string& key) const;
};

// What one layer exchanged in one step; NaN where the row does not say.
struct LayerUse {
  std::string name;
  std::string route;
  double bytes;
  double rank;
  double exchange_ms;
  double gradient_ms;
};

struct LayerRow {
  double step = 0;
  std::vector<LayerUse> layers;
};

struct Log {
  std::map<std::string, Rows> kinds;  // "batch", "epoch", "test"
  std::vector<LayerRow> layers;       // of the rows of kind "layers"
  // A sentence about a last line that was not written to its end, or "".
  std::string note;

  const Rows& rows(const std::string& kind) const;  // may have none
};

// IoError names file and line of what cannot be read. A last line without its
// end is left out instead: the run may still be writing it.
Log read_log(const std::filesystem::path& file);

}  // namespace sheaf::report
