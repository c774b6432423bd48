#pragma once
// The output folder of a run: config.yaml, log.jsonl, summary.json,
// checkpoints/, and optionally trace and TensorBoard files.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/table.hpp"

namespace sheaf::train {

using Row = std::vector<std::pair<std::string, Cell>>;
std::string json_of(const Row& row);  // {"key": value, ...}

struct FolderRequest {
  std::string folder = {};       // empty: runs/<stem>-001 or next free number
  std::string config_name = {};  // "examples/mlp.yaml" gives the stem "mlp"
  bool is_resumed = false;
};

// Creates the folder and returns its path; call it on one rank only. Throws
// UsageError if the folder is not empty. For a resumed run the folder must
// exist; if it is not given, the last runs/<stem>-<number> is used.
std::filesystem::path open_run_folder(const FolderRequest& request);

// log.jsonl: one row per line, ordered by step.
class RunLog {
 public:
  // Appends after the rows of steps before `next_step` and removes later rows,
  // which an interrupted run wrote after its last checkpoint. Throws an IoError
  // that names the file.
  RunLog(std::filesystem::path path, std::int64_t next_step);

  // With `flush` false the row may stay in memory until a later row is flushed.
  void add(const Row& row, bool flush = true);
  // Adds a line that is already a JSON object.
  void add_line(const std::string& line, bool flush = true);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace sheaf::train
