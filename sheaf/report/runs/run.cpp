#include "sheaf/report/runs/run.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <limits>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/formats/texts/yaml_text.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;

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

std::string line_of(const YAML::Node& node) {
  YAML::Emitter out;
  out.SetSeqFormat(YAML::Flow);
  out.SetMapFormat(YAML::Flow);
  out << node;
  std::string text = out.c_str();
  // The emitter breaks long flow lists into lines; join them.
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
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

JsonSource source_of(const std::string& file) {
  return {file, "it is damaged; remove it to do without it"};
}

double plain_number_at(const JsonValue& object, const char* key) {
  const auto found = object.find(key);
  return found && found->json().is_number()
             ? found->number()
             : std::numeric_limits<double>::quiet_NaN();
}

// Passes the text of the file, if there is one, to `parse`.
template <class Parse>
void read_if_there(const fs::path& file, Parse parse) {
  if (fs::exists(file)) parse(read_file(file, kMostTextBytes), file.string());
}

}  // namespace

Settings parse_settings(const std::string& text, const std::string& file) {
  Settings settings;
  const formats::YamlSource source{.name = file, .is_by_user = false};
  try {
    const YAML::Node root = formats::parse_yaml(text, source);
    if (root.IsDefined() && !root.IsNull()) flatten(root, "", settings);
  } catch (const YAML::Exception& error) {
    source.fail(error.mark.line, "invalid YAML: " + error.msg);
  }
  return settings;
}

void parse_summary(const std::string& text, const std::string& file, Run& run) {
  const JsonSource source = source_of(file);
  const nlohmann::json json = parse_json(text, source);
  for (const auto& [key, value] : JsonValue(json, source).members()) {
    if (value.json().is_number()) run.summary[key] = value.number();
    if (key == "ending" && value.is_text()) run.ending = value.text();
  }
}

std::vector<Route> parse_routes(const std::string& text,
                                const std::string& file) {
  const JsonSource source = source_of(file);
  const nlohmann::json json = parse_json(text, source);
  std::vector<Route> routes;
  for (const JsonValue& layer : JsonValue(json, source).at("layers").items())
    routes.push_back({.name = layer.at("name").text(),
                      .route = layer.at("route").text(),
                      .reason = layer.value("reason", ""),
                      .rows = plain_number_at(layer, "rows"),
                      .in = plain_number_at(layer, "in"),
                      .out = plain_number_at(layer, "out")});
  return routes;
}

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
  read_if_there(folder / "config.yaml",
                [&](const auto& text, const auto& file) {
                  run.config = parse_settings(text, file);
                });
  read_if_there(folder / "summary.json",
                [&](const auto& text, const auto& file) {
                  parse_summary(text, file, run);
                });
  read_if_there(folder / "routes.json",
                [&](const auto& text, const auto& file) {
                  run.routes = parse_routes(text, file);
                });
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
