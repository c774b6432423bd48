#pragma once
// Reads the folder of a run, as written by `sheaf train`.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/report/runs/log_file.hpp"
#include "sheaf/report/runs/timeline.hpp"

namespace sheaf::report {

// How the gradient of one parameter is exchanged, from routes.json.
struct Route {
  std::string name;
  std::string route;
  std::string reason;
  double rows;
  double in;
  double out;
};

// Settings with dotted keys, such as "optimizer.name", in the order of the
// file; a list, or an empty mapping, is one value, on one line.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Run {
  std::filesystem::path folder;
  std::string label;
  Log log;
  Settings config;  // of config.yaml; empty without the file
  // From summary.json; empty without it, for example while the run continues.
  std::string ending;
  std::map<std::string, double> summary;
  std::vector<Route> routes;  // empty without routes.json
  Timeline timeline;          // empty without trace.json
};

// The part of the folder's name after the last '_': "DADs2b16" for
// "logs/net_logs_DADs2b16/". The whole name if that part is empty.
std::string label_of(const std::filesystem::path& folder);

// One label per folder: `given` if it is not empty, else label_of. Folders with
// the same label get their names instead, and their whole paths if these are
// equal too. Throws UsageError if two labels are still equal, or if the number
// of given labels is not the number of folders.
std::vector<std::string> labels_of(
    std::span<const std::filesystem::path> folders,
    std::span<const std::string> given = {});

struct ReadOptions {
  bool with_traces = false;  // trace files may be large
};

// Only log.jsonl is required. Throws IoError with the name of a file that
// cannot be read and, for line-based files, the line.
Run read_run(const std::filesystem::path& folder,
             const ReadOptions& options = {});

// The parsers of config.yaml, summary.json and routes.json. Throw IoError with
// the name of the file, and the line or the key.
Settings parse_settings(const std::string& text, const std::string& file);
void parse_summary(const std::string& text, const std::string& file, Run& run);
std::vector<Route> parse_routes(const std::string& text,
                                const std::string& file);

// Reads several runs and labels them with labels_of().
std::vector<Run> read_runs(std::span<const std::filesystem::path> folders,
                           std::span<const std::string> labels = {},
                           const ReadOptions& options = {});

}  // namespace sheaf::report
