#include "sheaf/report/runs/run.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/report/runs/flat_yaml.hpp"
#include "sheaf/report/runs/label.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A hint that lists the runs inside the folder, in case the user passed the
// parent folder.
std::string runs_inside(const fs::path& folder) {
  std::vector<std::string> runs;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (fs::exists(entry.path() / "log.jsonl", ignored))
      runs.push_back(entry.path().string());
  if (runs.empty()) return "; pass a run folder written by `sheaf train`";
  std::sort(runs.begin(), runs.end());
  return "; it contains these runs: " + join(runs, " ");
}

void check_folder(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw IoError(concat(folder.string(),
                         ": no such folder; pass a run "
                         "folder written by `sheaf train`"));
  if (!fs::exists(folder / "log.jsonl"))
    throw IoError(
        concat(folder.string(), " has no log.jsonl", runs_inside(folder)));
}

json read_json(const fs::path& file) {
  try {
    return json::parse(read_file(file));
  } catch (const json::exception& error) {
    throw IoError(concat(file.string(), ": invalid JSON: ", error.what()));
  }
}

void read_summary(Run& run, const fs::path& file) {
  if (!fs::exists(file)) return;
  const json summary = read_json(file);
  for (const auto& [key, value] : summary.items()) {
    if (value.is_number()) run.summary[key] = value.get<double>();
    if (key == "ending" && value.is_string())
      run.ending = value.get<std::string>();
  }
}

double plain_number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number()
             ? found->get<double>()
             : std::numeric_limits<double>::quiet_NaN();
}

void read_routes(Run& run, const fs::path& file) {
  if (!fs::exists(file)) return;
  const json routes = read_json(file);
  try {
    for (const json& layer : routes.at("layers"))
      run.routes.push_back({.name = layer.at("name"),
                            .route = layer.at("route"),
                            .reason = layer.value("reason", ""),
                            .rows = plain_number_at(layer, "rows"),
                            .in = plain_number_at(layer, "in"),
                            .out = plain_number_at(layer, "out")});
  } catch (const json::exception& error) {
    throw IoError(concat(file.string(), ": invalid routes: ", error.what()));
  }
}

}  // namespace

Run read_run(const fs::path& folder, const ReadOptions& options) {
  check_folder(folder);
  Run run;
  run.folder = folder;
  run.label = label_of(folder);
  run.log = read_log(folder / "log.jsonl");
  if (fs::exists(folder / "config.yaml"))
    run.config = read_flat_yaml(folder / "config.yaml");
  read_summary(run, folder / "summary.json");
  read_routes(run, folder / "routes.json");
  if (options.with_traces) run.timeline = read_timeline(folder);
  return run;
}

std::vector<Run> read_runs(std::span<const fs::path> folders,
                           std::span<const std::string> labels,
                           const ReadOptions& options) {
  const std::vector<std::string> names = labels_of(folders, labels);
  std::vector<Run> runs;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    runs.push_back(read_run(folders[i], options));
    runs.back().label = names[i];
  }
  return runs;
}

}  // namespace sheaf::report
