#pragma once
// Reads log.jsonl of a run: one JSON object per line, see
// docs/reference/run_folder.md.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::report {

// The rows of one kind by column: columns.at(key)[i] is the value of row i, NaN
// if it has no number. True and false are 1 and 0; strings are omitted.
struct Rows {
  std::size_t count = 0;
  std::map<std::string, std::vector<double>> columns;

  bool has(const std::string& key) const { return columns.count(key) != 0; }
  // NaN in every row if there is no such key.
  std::vector<double> get(const std::string& key) const;
};

// The exchange of one layer in one step; NaN for values that the row lacks.
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
  std::vector<LayerRow> layers;       // rows of kind "layers"
  // A sentence about an incomplete last line, or "".
  std::string note;

  const Rows& rows(const std::string& kind) const;  // may be empty
};

// Throws IoError with the file and the line that cannot be parsed. An
// incomplete last line is skipped: the run may still be writing it.
Log read_log(const std::filesystem::path& file);
Log parse_log(std::string_view content, const std::string& file);

}  // namespace sheaf::report
