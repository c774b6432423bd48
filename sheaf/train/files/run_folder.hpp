#pragma once
// The folder that a run leaves: config.yaml, log.jsonl, summary.json,
// checkpoints/, and on request trace files and TensorBoard's.

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
  std::string folder = {};  // empty: runs/<stem>-001, or the next free number
  std::string config_name = {};  // "examples/mlp.yaml" gives the stem "mlp"
  bool is_resumed = false;
};

// Makes the folder and gives its path; for one rank only. A folder that holds
// something is a UsageError, unless the run is resumed: then it must be there,
// and without a name the last runs/<stem>-<number> is taken.
std::filesystem::path open_run_folder(const FolderRequest& request);

// log.jsonl: a row per line, in the order of steps.
class RunLog {
 public:
  // Goes on behind the rows of steps before `next_step`: later rows come from
  // a run that was ended before it could save them. IoError names the file.
  RunLog(std::filesystem::path path, std::int64_t next_step);

  // `flush` false leaves the row in memory until a later one is flushed.
  void add(const Row& row, bool flush = true);
  // The same for a JSON object.
  void add_line(const std::string& line, bool flush = true);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace sheaf::train
