#pragma once
// Reads one YAML mapping into one struct of the config.

#include <yaml-cpp/yaml.h>

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/train/config/config_fields.hpp"

namespace sheaf::train {

// Origin of the values: a file or a command-line override.
struct Source {
  std::string name;
  bool has_lines = true;
  std::map<std::string, std::string>* origins = nullptr;
};

// Parses `text` as formats::parse_yaml() does. Throws UsageError with the name
// of the source, and the line if the source has lines.
YAML::Node parse_yaml(const std::string& text, const Source& source);

class ConfigReader {
 public:
  // `path` is the full key of the mapping, such as "optimizer", or empty for
  // the whole config. A lone word is read as {name: word}.
  ConfigReader(const YAML::Node& node, std::string path, const Source& source);

  void field(std::string_view key, std::string& value);
  void field(std::string_view key, bool& value);
  void field(std::string_view key, double& value, const Range& range);
  template <std::signed_integral T>
  void field(std::string_view key, T& value, const Range& range) {
    if (const auto node = find(key))
      value = static_cast<T>(
          whole_number(key, node, range, std::numeric_limits<T>::max()));
  }
  void choice(std::string_view key, std::string& value,
              std::initializer_list<std::string_view> names);
  // Accepts one value or a list.
  void choices(std::string_view key, std::vector<std::string>& values,
               std::initializer_list<std::string_view> names);
  void numbers(std::string_view key, std::vector<std::int64_t>& values,
               const Range& range);
  void items(std::string_view key, std::vector<Item>& items);
  void arguments(std::string_view key, Arguments& arguments);

  template <class Section>
  void section(std::string_view key, Section& section) {
    const YAML::Node node = find(key);
    if (!node) return;
    ConfigReader reader(node, full(key), source_);
    visit(reader, section);
    reader.finish();
  }

  // Throws UsageError if the mapping has a key that was never read.
  void finish() const;

  // For values of other types: the node of a key (undefined if absent), the
  // prefix of messages about a node ("a.yaml:7: "), and a node as an integer.
  YAML::Node find(std::string_view key);
  std::string at(const YAML::Node& node) const;
  std::int64_t whole_number(std::string_view key, const YAML::Node& node,
                            const Range& range, std::int64_t largest) const;

 private:
  std::string full(std::string_view key) const;
  std::string scalar(std::string_view key, const YAML::Node& node,
                     std::string_view wanted) const;
  std::string chosen(std::string_view key, const YAML::Node& node,
                     std::initializer_list<std::string_view> names) const;
  std::vector<YAML::Node> one_or_more(std::string_view key,
                                      const YAML::Node& node) const;
  void check_range(std::string_view key, const YAML::Node& node, double value,
                   const Range& range) const;
  Item read_item(std::string_view key, const YAML::Node& node) const;
  Arguments read_arguments(std::string_view key, const YAML::Node& node) const;
  Argument read_argument(std::string_view key, const YAML::Node& node) const;

  YAML::Node node_;
  std::string path_;
  const Source& source_;
  std::vector<std::string_view> known_;
};

}  // namespace sheaf::train
