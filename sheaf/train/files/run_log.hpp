#pragma once
// log.jsonl and summary.json of a run, see docs/reference/run_folder.md.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/table.hpp"

namespace sheaf::train {

using Row = std::vector<std::pair<std::string, Cell>>;
std::string json_of(const Row& row);  // {"key": value, ...}

// One row per line, ordered by step. Throws IoError, which names the file.
class RunLog {
 public:
  // Appends after the rows of steps before `next_step` and removes later rows,
  // which an interrupted run wrote after its last checkpoint.
  RunLog(std::filesystem::path path, std::int64_t next_step);

  // With `flush` false the row may stay in memory until a later row is flushed.
  void add(const Row& row, bool flush = true);
  // Adds a line that is already a JSON object.
  void add_line(const std::string& line, bool flush = true);
  // Waits until all rows are on disk.
  void sync();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::ofstream out_;
};

// What summary.json holds.
struct SummaryFile {
  std::string ending;
  std::map<std::string, double> numbers;

  std::optional<double> number(const std::string& key) const {
    const auto found = numbers.find(key);
    if (found == numbers.end()) return std::nullopt;
    return found->second;
  }
};

// Reads summary.json. Empty if the text is damaged: a run without a summary has
// not ended.
SummaryFile parse_summary_file(const std::string& text);

}  // namespace sheaf::train
