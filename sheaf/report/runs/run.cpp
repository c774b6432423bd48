#include "sheaf/report/runs/run.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The folder's name without trailing slashes; "." and ".." are resolved.
std::string name_of(const fs::path& folder) {
  fs::path path = folder.lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.filename() == "." || path.filename() == "..") {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!error) path = real;
  }
  return path.filename().empty() ? folder.string() : path.filename().string();
}

template <class NameOf>
void rename_equals(std::vector<std::string>& labels,
                   std::span<const fs::path> folders, const NameOf& name) {
  const std::vector<std::string> before = labels;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (std::count(before.begin(), before.end(), before[i]) > 1)
      labels[i] = name(folders[i]);
}

std::vector<std::string> all_different(std::vector<std::string> labels) {
  std::set<std::string> known;
  for (const std::string& label : labels)
    SHEAF_CHECK(known.insert(label).second, "two runs have the label '", label,
                "'; pass each run once, or give each its own --label");
  return labels;
}

using Settings = std::vector<std::pair<std::string, std::string>>;

std::string line_of(const YAML::Node& node) {
  YAML::Emitter out;
  out.SetSeqFormat(YAML::Flow);
  out.SetMapFormat(YAML::Flow);
  out << node;
  std::string text = out.c_str();
  // The emitter breaks long flow lists into lines; join them.
  for (std::size_t at; (at = text.find('\n')) != std::string::npos;) {
    const std::size_t next = text.find_first_not_of(" \n", at);
    text.replace(at, std::min(next, text.size()) - at, " ");
  }
  return text;
}

void flatten(const YAML::Node& node, const std::string& prefix,
             Settings& settings) {
  if (!node.IsMap() || node.size() == 0) {
    settings.emplace_back(prefix,
                          node.IsScalar() ? node.Scalar() : line_of(node));
    return;
  }
  for (const auto& entry : node) {
    std::string key = prefix.empty() ? "" : prefix + ".";
    key += entry.first.as<std::string>();
    flatten(entry.second, key, settings);
  }
}

// The values in the order of the file, with dotted keys such as
// "optimizer.name". A list or an empty map is one value, written on one line.
// Throws IoError with the file and the line.
Settings read_flat_yaml(const std::filesystem::path& file) {
  Settings settings;
  try {
    const YAML::Node root = YAML::Load(read_file(file));
    if (root.IsDefined() && !root.IsNull()) flatten(root, "", settings);
  } catch (const YAML::Exception& error) {
    throw IoError(concat(file.string(), ":", error.mark.line + 1,
                         ": invalid YAML: ", error.msg));
  }
  return settings;
}

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

std::string label_of(const fs::path& folder) {
  const std::string name = name_of(folder);
  const std::string part = name.substr(name.rfind('_') + 1);
  return part.empty() ? name : part;
}

std::vector<std::string> labels_of(std::span<const fs::path> folders,
                                   std::span<const std::string> given) {
  SHEAF_CHECK(given.empty() || given.size() == folders.size(), "there are ",
              folders.size(), " runs and ", given.size(),
              " labels; pass one --label per run, in the same order");
  if (!given.empty()) return all_different({given.begin(), given.end()});
  std::vector<std::string> labels;
  for (const fs::path& folder : folders) labels.push_back(label_of(folder));
  rename_equals(labels, folders, name_of);
  rename_equals(labels, folders, [](const fs::path& path) {
    return path.lexically_normal().string();
  });
  return all_different(std::move(labels));
}

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
