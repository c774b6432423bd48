#include <yaml-cpp/yaml.h>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/cli/plan/plan_files.hpp"
#include "sheaf/formats/texts/yaml_text.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kShape =
    "expected a list \"operators\" of {name: mine::product, backward: "
    "[MineBackward], may_change: true}";

plan::CustomOperator operator_of(const YAML::Node& node,
                                 const std::string& path) {
  const auto check = [&](bool holds, const YAML::Node& at, const char* what) {
    SHEAF_CHECK(holds, path, ", line ", at.Mark().line + 1, ": ", what, "; ",
                kShape);
  };
  check(node.IsMap(), node, "this entry is not an operator");
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>();
    check(key == "name" || key == "backward" || key == "may_change",
          entry.first, "unknown key");
  }
  check(node["name"] && node["name"].IsScalar(), node,
        "the operator has no name");
  plan::CustomOperator one;
  one.name = node["name"].as<std::string>();
  if (const YAML::Node backward = node["backward"]) {
    check(backward.IsSequence(), backward, "backward must be a list of names");
    for (const YAML::Node& name : backward)
      one.backward.push_back(name.as<std::string>());
  }
  if (node["may_change"]) one.may_change = node["may_change"].as<bool>();
  return one;
}

}  // namespace

plan::CustomOperators read_custom_operators(const std::string& path) {
  return parse_custom_operators(read_file(path, kMostTextBytes), path);
}

plan::CustomOperators parse_custom_operators(const std::string& text,
                                             const std::string& path) {
  try {
    const YAML::Node root = formats::parse_yaml(text, {.name = path});
    SHEAF_CHECK(root.IsMap() && root["operators"].IsDefined() &&
                    root["operators"].IsSequence(),
                path, ": ", kShape);
    plan::CustomOperators list;
    for (const YAML::Node& node : root["operators"])
      list.push_back(operator_of(node, path));
    return list;
  } catch (const YAML::Exception& error) {
    throw UsageError(concat(path, ", line ", error.mark.line + 1, ": ",
                            error.msg, "; ", kShape));
  }
}

}  // namespace sheaf::cli
