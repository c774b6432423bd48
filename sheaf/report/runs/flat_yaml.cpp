#include "sheaf/report/runs/flat_yaml.hpp"

#include <yaml-cpp/yaml.h>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"

namespace sheaf::report {
namespace {

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

}  // namespace

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

}  // namespace sheaf::report
