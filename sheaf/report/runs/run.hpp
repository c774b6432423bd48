#pragma once
// What is known about a run: the folder that `sheaf train` leaves.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/report/runs/log_file.hpp"
#include "sheaf/report/runs/timeline.hpp"

namespace sheaf::report {

// How the gradient of one parameter goes round, by routes.json.
struct Route {
  std::string name;
  std::string route;
  std::string reason;
  double rows;
  double in;
  double out;
};

struct Run {
  std::filesystem::path folder;
  std::string label;
  Log log;
  // Each key with the names of its sections in front, "optimizer.name", in the
  // order of config.yaml; lists are one value. Empty without the file.
  std::vector<std::pair<std::string, std::string>> config;
  // Of summary.json; empty without it, as while the run goes on.
  std::string ending;
  std::map<std::string, double> summary;
  std::vector<Route> routes;  // empty without routes.json
  Timeline timeline;          // empty without trace.json
};

struct ReadOptions {
  bool with_traces = false;  // they may be large
};

// Only log.jsonl must be there. A file that cannot be read is an IoError with
// its name and, in text of lines, the line.
Run read_run(const std::filesystem::path& folder,
             const ReadOptions& options = {});

// With labels by labels_of().
std::vector<Run> read_runs(std::span<const std::filesystem::path> folders,
                           std::span<const std::string> labels = {},
                           const ReadOptions& options = {});

}  // namespace sheaf::report
