#include "sheaf/train/config/sweep_file.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/train/config/config_reader.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRanks = 1 << 20;
constexpr int kMostRepeats = 10000;

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else if (c == '\r')
      result += "\\r";
    else
      result += c;
  }
  return result + "\"";
}

std::string scalar_text(const YAML::Node& node, bool is_inside) {
  const std::string& text = node.Scalar();
  const bool is_cut = is_inside && text.find_first_of(",[]{}:#") != text.npos;
  const bool was_quoted = node.Tag() == "!";
  return is_cut || was_quoted ? quoted(text) : text;
}

// The value as YAML on one line, whatever its style in the file.
std::string flow_text(const YAML::Node& node, bool is_inside = false) {
  if (node.IsScalar()) return scalar_text(node, is_inside);
  if (!node.IsMap() && !node.IsSequence()) return "null";
  std::vector<std::string> parts;
  for (const auto& entry : node)
    parts.push_back(node.IsMap() ? concat(flow_text(entry.first, true), ": ",
                                          flow_text(entry.second, true))
                                 : flow_text(entry, true));
  return node.IsMap() ? concat("{", join(parts, ", "), "}")
                      : concat("[", join(parts, ", "), "]");
}

class SweepReader {
 public:
  SweepReader(const std::string& text, const fs::path& file)
      : file_(file),
        source_{file.string(), true, &origins_},
        node_(parse_yaml(text, source_)),
        reader_(node_, "", source_) {}

  SweepFile read();

 private:
  template <class Use>
  void walk(const YAML::Node& node, const std::string& path, Use use) const;
  void check_mapping(std::string_view what, const YAML::Node& node) const;
  Axis read_ranks(const YAML::Node& node) const;
  Axis read_values(const std::string& key, const YAML::Node& node) const;
  Axis read_cases(const YAML::Node& node) const;
  Choice read_case(const std::string& name, const YAML::Node& node) const;
  void add_axes(SweepFile& result, int repeats);
  void check_keys(const SweepFile& result) const;
  void read_skips(SweepFile& result);
  Skip read_skip(const YAML::Node& node) const;

  fs::path file_;
  std::map<std::string, std::string> origins_;
  Source source_;
  YAML::Node node_;
  ConfigReader reader_;
};

// Every leaf of nested mappings, with its dotted key.
template <class Use>
void SweepReader::walk(const YAML::Node& node, const std::string& path,
                       Use use) const {
  for (const auto& entry : node) {
    const std::string key =
        path + (path.empty() ? "" : ".") + entry.first.as<std::string>("");
    if (entry.second.IsMap())
      walk(entry.second, key, use);
    else
      use(key, entry.second, reader_.at(entry.first));
  }
}

void SweepReader::check_mapping(std::string_view what,
                                const YAML::Node& node) const {
  SHEAF_CHECK(node.IsMap() && node.size() > 0, reader_.at(node), what,
              " must be a mapping of config keys to values, such as "
              "{global_batch: [16, 64]}");
}

Axis SweepReader::read_ranks(const YAML::Node& node) const {
  Axis axis{"ranks", {}};
  const auto add = [&](const YAML::Node& one) {
    const auto count = reader_.whole_number("ranks", one, kFromOne, kMostRanks);
    axis.choices.push_back({std::to_string(count), {}});
  };
  if (!node) return {"ranks", {{"1", {}}}};
  if (node.IsSequence())
    for (const auto& one : node) add(one);
  else
    add(node);
  SHEAF_CHECK(!axis.choices.empty(), reader_.at(node),
              "ranks is an empty list; write numbers, such as [2, 4]");
  return axis;
}

Axis SweepReader::read_values(const std::string& key,
                              const YAML::Node& node) const {
  Axis axis{key, {}};
  const auto add = [&](const YAML::Node& one) {
    const std::string value = flow_text(one);
    axis.choices.push_back({value, {{key, value, reader_.at(one)}}});
  };
  if (node.IsSequence())
    for (const auto& one : node) add(one);
  else
    add(node);
  SHEAF_CHECK(!axis.choices.empty(), reader_.at(node), "set.", key,
              " is an empty list; write the values to try, such as [16, 64]");
  return axis;
}

Axis SweepReader::read_cases(const YAML::Node& node) const {
  SHEAF_CHECK(node.IsMap() && node.size() > 0, reader_.at(node),
              "cases must be a mapping of names to settings, such as "
              "{adam: {optimizer: adam}}");
  Axis axis{"case", {}};
  for (const auto& entry : node)
    axis.choices.push_back(
        read_case(entry.first.as<std::string>(""), entry.second));
  return axis;
}

// An empty case is valid: the base config without changes.
Choice SweepReader::read_case(const std::string& name,
                              const YAML::Node& node) const {
  Choice choice{name, {}};
  if (node.IsNull() || (node.IsMap() && node.size() == 0)) return choice;
  check_mapping("cases." + name, node);
  walk(node, "", [&](const auto& key, const auto& value, const auto&) {
    choice.settings.push_back({key, flow_text(value), reader_.at(value)});
  });
  return choice;
}

void SweepReader::add_axes(SweepFile& result, int repeats) {
  Axis repeat{"repeat", {}};
  for (int i = 1; i <= repeats && repeats > 1; ++i)
    repeat.choices.push_back({concat("r", i), {}});
  // The slowest axis, so that a stopped sweep has completed whole rounds.
  if (repeats > 1) result.axes.push_back(repeat);
  result.axes.push_back(read_ranks(reader_.find("ranks")));
  if (const YAML::Node set = reader_.find("set")) {
    check_mapping("set", set);
    walk(set, "", [&](const auto& key, const auto& value, const auto&) {
      result.axes.push_back(read_values(key, value));
    });
  }
  if (const YAML::Node cases = reader_.find("cases"))
    result.axes.push_back(read_cases(cases));
}

void SweepReader::check_keys(const SweepFile& result) const {
  std::map<std::string, const Axis*> owners;
  for (const Axis& axis : result.axes)
    for (const Choice& choice : axis.choices)
      for (const Setting& one : choice.settings) {
        SHEAF_CHECK(
            one.key != "ranks" && one.key != "case" && one.key != "repeat",
            one.place, one.key,
            " is not a key of the config; write it outside of `set` "
            "and `cases`");
        SHEAF_CHECK(one.key != "output.folder" && one.key != "output",
                    one.place, one.key,
                    " cannot be swept: each job has its own folder in "
                    "`output`; set keys such as output.log_every");
        const Axis* owner = owners.emplace(one.key, &axis).first->second;
        SHEAF_CHECK(owner == &axis, one.place, one.key,
                    " is given twice; put it once in `set`, or in `cases`");
      }
}

Skip SweepReader::read_skip(const YAML::Node& node) const {
  check_mapping("an entry of skip", node);
  Skip skip;
  walk(node, "",
       [&](const auto& key, const YAML::Node& value, const auto& place) {
         Skip::Condition condition{key, {}, place};
         if (value.IsSequence())
           for (const auto& one : value)
             condition.values.push_back(flow_text(one));
         else
           condition.values.push_back(flow_text(value));
         skip.conditions.push_back(condition);
       });
  return skip;
}

void SweepReader::read_skips(SweepFile& result) {
  const YAML::Node node = reader_.find("skip");
  if (!node) return;
  SHEAF_CHECK(node.IsSequence(), reader_.at(node),
              "skip must be a list of mappings, such as [{ranks: 8, "
              "global_batch: 16}]");
  for (const auto& one : node) result.skips.push_back(read_skip(one));
}

SweepFile SweepReader::read() {
  SweepFile result;
  std::string base, output;
  int repeats = 1;
  reader_.field("base", base);
  reader_.field("output", output);
  reader_.field("name", result.name);
  reader_.field("repeat", repeats, Range{1, kMostRepeats});
  add_axes(result, repeats);
  read_skips(result);
  reader_.finish();
  check_keys(result);
  SHEAF_CHECK(!base.empty(), file_.string(),
              ": there is no `base`; name the config that the jobs change, "
              "such as base: mlp.yaml");
  result.base = file_.parent_path() / base;
  result.output = output.empty() ? "runs" / file_.stem() : fs::path(output);
  result.name_place = origins_["name"];
  return result;
}

}  // namespace

SweepFile parse_sweep_file(const std::string& text,
                           const std::filesystem::path& file) {
  return SweepReader(text, file).read();
}

SweepFile read_sweep_file(const std::filesystem::path& file) {
  return parse_sweep_file(read_file(file, kMostTextBytes), file);
}

}  // namespace sheaf::train
