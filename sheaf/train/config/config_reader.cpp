#include "sheaf/train/config/config_reader.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/formats/texts/yaml_text.hpp"

namespace sheaf::train {
namespace {

constexpr std::size_t kShown = 60;  // of a value, in errors

std::string range_text(const Range& range) {
  if (range.high == kNoLimit)
    return concat(range.is_open ? "above " : "at least ", range.low);
  if (range.high < 1e15 && range.high == std::floor(range.high))
    return concat("from ", range.low, " to ",
                  static_cast<std::int64_t>(range.high));
  return concat("from ", range.low, " to ", range.high);
}

std::string kind_of(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "empty";
  return concat("'", printable(node.Scalar(), kShown), "'");
}

// The current name of a key or transform. Earlier versions used the British
// spelling of some.
std::string current_name(const YAML::Node& node) {
  const std::string name = node.as<std::string>("");
  if (name == "normalise") return "normalize";
  if (name == "centre_crop") return "center_crop";
  if (name == "normalise_filters") return "normalize_filters";
  return name;
}

bool is_whole(const std::string& text, std::int64_t& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

bool is_number(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  // The text may hold a zero byte.
  return !text.empty() && end == text.c_str() + text.size() &&
         std::isfinite(value);
}

}  // namespace

YAML::Node parse_yaml(const std::string& text, const Source& source) {
  return formats::parse_yaml(text, {source.name, source.has_lines});
}

ConfigReader::ConfigReader(const YAML::Node& node, std::string path,
                           const Source& source)
    : node_(node), path_(std::move(path)), source_(source) {
  if (node.IsScalar() && !path_.empty()) {
    YAML::Node mapping(YAML::NodeType::Map);
    mapping["name"] = node;
    // Assignment would modify the node that `node` refers to.
    node_.reset(mapping);
  }
  SHEAF_CHECK(node_.IsMap(), at(node), path_.empty() ? "the file" : path_,
              " is ", kind_of(node),
              "; it must be a mapping of keys to values");
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    const std::string key = current_name(entry.first);
    SHEAF_CHECK(seen.insert(key).second, at(entry.first), full(key),
                " is given twice; remove one of them");
  }
}

std::string ConfigReader::full(std::string_view key) const {
  return path_.empty() ? std::string(key) : concat(path_, ".", key);
}

std::string ConfigReader::at(const YAML::Node& node) const {
  const int line = node.Mark().line;
  if (!source_.has_lines || line < 0) return source_.name + ": ";
  return concat(source_.name, ":", line + 1, ": ");
}

YAML::Node ConfigReader::find(std::string_view key) {
  known_.push_back(key);
  for (const auto& entry : node_) {
    if (current_name(entry.first) != key) continue;
    (*source_.origins)[full(key)] = at(entry.first);
    return entry.second;
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

std::string ConfigReader::scalar(std::string_view key, const YAML::Node& node,
                                 std::string_view wanted) const {
  SHEAF_CHECK(node.IsScalar(), at(node), full(key), " is ", kind_of(node),
              "; it must be ", wanted);
  return node.Scalar();
}

void ConfigReader::field(std::string_view key, std::string& value) {
  if (const auto node = find(key)) value = scalar(key, node, "a string");
}

void ConfigReader::field(std::string_view key, bool& value) {
  const YAML::Node node = find(key);
  if (!node) return;
  const std::string text = scalar(key, node, "true or false");
  SHEAF_CHECK(text == "true" || text == "false", at(node), full(key), " is '",
              printable(text, kShown), "'; it must be true or false");
  value = text == "true";
}

void ConfigReader::check_range(std::string_view key, const YAML::Node& node,
                               double value, const Range& range) const {
  const bool is_above = range.is_open ? value > range.low : value >= range.low;
  SHEAF_CHECK(is_above && value <= range.high, at(node), full(key), " is ",
              node.Scalar(), "; it must be ", range_text(range));
}

void ConfigReader::field(std::string_view key, double& value,
                         const Range& range) {
  const YAML::Node node = find(key);
  if (!node) return;
  const std::string text = scalar(key, node, "a number");
  double number = 0;
  SHEAF_CHECK(is_number(text, number), at(node), full(key), " is '",
              printable(text, kShown), "'; it must be a number, ",
              range_text(range));
  check_range(key, node, number, range);
  value = number;
}

std::int64_t ConfigReader::whole_number(std::string_view key,
                                        const YAML::Node& node,
                                        const Range& range,
                                        std::int64_t largest) const {
  const std::string text = scalar(key, node, "a whole number");
  std::int64_t number = 0;
  SHEAF_CHECK(is_whole(text, number) && number <= largest, at(node), full(key),
              " is '", printable(text, kShown),
              "'; it must be a whole number, ", range_text(range));
  check_range(key, node, static_cast<double>(number), range);
  return number;
}

void ConfigReader::choice(std::string_view key, std::string& value,
                          std::initializer_list<std::string_view> names) {
  if (const auto node = find(key)) value = chosen(key, node, names);
}

std::string ConfigReader::chosen(
    std::string_view key, const YAML::Node& node,
    std::initializer_list<std::string_view> names) const {
  const std::vector<std::string_view> list(names);
  const std::string text = scalar(key, node, "one of " + join(list, ", "));
  const bool is_known = std::find(list.begin(), list.end(), text) != list.end();
  SHEAF_CHECK(is_known, at(node), full(key), " is '", printable(text, kShown),
              "'", did_you_mean(text, list), "; it must be one of ",
              join(list, ", "));
  return text;
}

std::vector<YAML::Node> ConfigReader::one_or_more(
    std::string_view key, const YAML::Node& node) const {
  if (!node.IsSequence()) return {node};
  SHEAF_CHECK(node.size() > 0, at(node), full(key),
              " is an empty list; give one value, or one for each rank");
  return {node.begin(), node.end()};
}

void ConfigReader::choices(std::string_view key,
                           std::vector<std::string>& values,
                           std::initializer_list<std::string_view> names) {
  const YAML::Node node = find(key);
  if (!node) return;
  values.clear();
  for (const YAML::Node& one : one_or_more(key, node))
    values.push_back(chosen(key, one, names));
}

void ConfigReader::numbers(std::string_view key,
                           std::vector<std::int64_t>& values,
                           const Range& range) {
  const YAML::Node node = find(key);
  if (!node) return;
  values.clear();
  for (const YAML::Node& one : one_or_more(key, node))
    values.push_back(whole_number(key, one, range,
                                  std::numeric_limits<std::int64_t>::max()));
}

void ConfigReader::items(std::string_view key, std::vector<Item>& items) {
  const YAML::Node node = find(key);
  if (!node) return;
  SHEAF_CHECK(node.IsSequence(), at(node), full(key), " is ", kind_of(node),
              "; it must be a list");
  items.clear();
  for (const auto& one : node) items.push_back(read_item(key, one));
}

Item ConfigReader::read_item(std::string_view key,
                             const YAML::Node& node) const {
  if (node.IsScalar()) return {current_name(node), {}};
  SHEAF_CHECK(node.IsMap() && node.size() == 1, at(node), "an entry of ",
              full(key), " is ", kind_of(node),
              "; write a name, or one name and its arguments: name: {a: 1}");
  const auto entry = *node.begin();
  const std::string name = current_name(entry.first);
  if (entry.second.IsNull()) return {name, {}};
  return {name, read_arguments(concat(key, ".", name), entry.second)};
}

void ConfigReader::arguments(std::string_view key, Arguments& arguments) {
  const YAML::Node node = find(key);
  if (!node) return;
  for (auto& [name, argument] : read_arguments(key, node))
    arguments[name] = argument;
}

Arguments ConfigReader::read_arguments(std::string_view key,
                                       const YAML::Node& node) const {
  SHEAF_CHECK(node.IsMap(), at(node), full(key), " is ", kind_of(node),
              "; it must be a mapping of arguments, {a: 1}");
  Arguments arguments;
  for (const auto& entry : node) {
    const std::string name = entry.first.as<std::string>("");
    const auto argument = read_argument(concat(key, ".", name), entry.second);
    SHEAF_CHECK(arguments.emplace(name, argument).second, at(entry.first),
                full(key), ".", name, " is given twice; remove one of them");
  }
  return arguments;
}

Argument ConfigReader::read_argument(std::string_view key,
                                     const YAML::Node& node) const {
  if (!node.IsSequence())
    return {{scalar(key, node, "a value or a list of values")}, false};
  Argument list{{}, true};
  for (const auto& one : node)
    list.values.push_back(scalar(key, one, "a list of plain values"));
  return list;
}

void ConfigReader::finish() const {
  for (const auto& entry : node_) {
    const std::string key = current_name(entry.first);
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    throw UsageError(
        concat(at(entry.first), "unknown key '", printable(full(key), kShown),
               "'", did_you_mean(key, known_), "; the keys ",
               path_.empty() ? "are " : concat("of ", path_, " are "),
               join(known_, ", ")));
  }
}

}  // namespace sheaf::train
