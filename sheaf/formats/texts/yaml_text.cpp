// yaml-cpp parses the text twice: first into events, which are checked one by
// one without building anything, then into nodes.
#include "sheaf/formats/texts/yaml_text.hpp"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::formats {
namespace {

constexpr std::size_t kShown = 60;  // of a key, in errors

class YamlGuard : public YAML::EventHandler {
 public:
  explicit YamlGuard(const YamlSource& source) : source_(source) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_document_)
      source_.fail(mark.line,
                   "a second document begins here; write each into a file of "
                   "its own");
    has_document_ = true;
  }
  // Only then: a list that does not end begins with such a key.
  void OnDocumentEnd() override {
    if (complex_key_line_ >= 0)
      source_.fail(complex_key_line_,
                   "a key is a mapping or a list; it must be text");
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add_value(mark, "~", anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&,
                YAML::anchor_t anchor, const std::string& value) override {
    if (find_not_text(value) != value.npos)
      source_.fail(mark.line, concat("the value \"", printable(value, kShown),
                                     "\" has characters that are not text"));
    add_value(mark, value, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = values_of_.find(anchor);
    if (known == values_of_.end())
      source_.fail(mark.line, "a value contains itself by an alias (*)");
    begin_value(mark, "*");
    count(mark, known->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, /*is_map=*/false);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(mark, anchor, /*is_map=*/true);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  // A mapping or list that has begun.
  struct Open {
    bool is_map = false;
    bool awaits_value = false;  // of `key`
    std::string key{};          // the last one
    std::set<std::string> keys{};
    YAML::anchor_t anchor = 0;  // 0: none
    std::size_t values_before = 0;
  };

  void count(const YAML::Mark& mark, std::size_t values) {
    values_ += values;
    if (values_ > kMostYamlValues)
      source_.fail(mark.line,
                   concat("there are more than ", kMostYamlValues,
                          " values up to here, counting each alias (*) as the "
                          "values that it stands for"));
  }

  // The dotted key of the innermost mapping's last key.
  std::string path() const {
    std::string text;
    for (const Open& one : open_)
      if (one.is_map) text += (text.empty() ? "" : ".") + one.key;
    return printable(text, 2 * kShown);
  }
  // Keys and values of a mapping alternate; `text` is the key, if one is due.
  void begin_value(const YAML::Mark& mark, const std::string& text) {
    if (open_.empty() || !open_.back().is_map) return;
    Open& map = open_.back();
    map.awaits_value = !map.awaits_value;
    if (!map.awaits_value) return;
    map.key = text;
    if (!map.keys.insert(text).second)
      source_.fail(mark.line,
                   concat(path(), " is given twice; remove one of them"));
  }
  void add_value(const YAML::Mark& mark, const std::string& text,
                 YAML::anchor_t anchor) {
    begin_value(mark, text);
    count(mark, 1);
    if (anchor != 0) values_of_[anchor] = 1;
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_map) {
    if (open_.size() == kMaxYamlDepth)
      source_.fail(mark.line, concat("values are nested deeper than ",
                                     kMaxYamlDepth, " levels"));
    begin_complex(mark);
    count(mark, 1);
    open_.push_back(
        {.is_map = is_map, .anchor = anchor, .values_before = values_ - 1});
  }
  void begin_complex(const YAML::Mark& mark) {
    if (open_.empty() || !open_.back().is_map) return;
    Open& map = open_.back();
    if (!map.awaits_value && complex_key_line_ < 0)
      complex_key_line_ = mark.line;
    map.awaits_value = !map.awaits_value;
  }
  void close() {
    const Open& closed = open_.back();
    if (closed.anchor != 0)
      values_of_[closed.anchor] = values_ - closed.values_before;
    open_.pop_back();
  }

  const YamlSource& source_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::size_t> values_of_;  // complete ones
  std::size_t values_ = 0;
  bool has_document_ = false;
  int complex_key_line_ = -1;  // of the first key that is not text; -1: none
};

void check_text(const std::string& text, const YamlSource& source) {
  const std::size_t bad = find_not_text(text);
  if (bad == text.npos) return;
  const auto line = std::count(
      text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
  source.fail(static_cast<int>(line),
              concat("the byte ", printable({&text[bad], 1}),
                     " is not text; save the file as UTF-8, or check that it "
                     "is the right one"));
}

}  // namespace

void YamlSource::fail(int line, const std::string& what) const {
  const std::string place =
      has_lines && line >= 0 ? concat(name, ":", line + 1) : name;
  const std::string message = concat(place, ": ", what);
  if (is_by_user) throw UsageError(message);
  throw IoError(message);
}

YAML::Node parse_yaml(const std::string& text, const YamlSource& source) {
  check_text(text, source);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    YamlGuard guard(source);
    while (parser.HandleNextDocument(guard)) {
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    source.fail(error.mark.line, "invalid YAML: " + printable(error.msg, 200));
  }
}

}  // namespace sheaf::formats
