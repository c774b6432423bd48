#include "sheaf/base/json_file.hpp"

#include <algorithm>
#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 60;  // of a value, in errors

std::string shown(std::string_view text) { return printable(text, kShown); }

// Builds the value from the parser's events, which come one after the other:
// neither depth nor width can exhaust the stack.
class JsonBuilder : public nlohmann::json_sax<json> {
 public:
  JsonBuilder(std::string_view text, const JsonSource& source)
      : text_(text), source_(source) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON texts
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [at, is_new] = open_.back()->get_ref<json::object_t&>().emplace(
        std::move(name), nullptr);
    if (!is_new)
      source_.fail(concat("the key '", shown(at->first), "' is given twice in ",
                          "one object"));
    member_ = &at->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    JsonSource at = source_;
    if (at.has_lines) at.name += concat(":", line);
    at.fail("invalid JSON: " + reason_of(error.what()));
  }

 private:
  // nlohmann's message without "[json.exception.…] parse error at line 1,
  // column 2: ".
  static std::string reason_of(std::string_view message) {
    const std::size_t id = message.find("] ");
    if (id != message.npos) message.remove_prefix(id + 2);
    if (message.starts_with("parse error"))
      message.remove_prefix(std::min(message.find(": ") + 2, message.size()));
    return printable(message);
  }

  json& place(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    auto& items = open_.back()->get_ref<json::array_t&>();
    return items.emplace_back(std::move(value));
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json value) {
    if (open_.size() == kMaxJsonDepth)
      source_.fail(concat("its values are nested deeper than ", kMaxJsonDepth,
                          " levels"));
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const JsonSource& source_;
  json root_;
  std::vector<json*> open_;  // objects and arrays, outermost first
  json* member_ = nullptr;   // of the innermost object, awaiting its value
};

}  // namespace

void JsonSource::fail(const std::string& what) const {
  const std::string message =
      concat(name, ": ", what, advice.empty() ? "" : "; ", advice);
  if (is_by_user) throw UsageError(message);
  throw IoError(message);
}

json parse_json(std::string_view text, const JsonSource& source) {
  JsonBuilder builder(text, source);
  json::sax_parse(text, &builder);
  return builder.take();
}

void JsonValue::fail(const std::string& what) const {
  source_->fail(concat(
      key_.empty() ? "the content" : concat("key '", key_, "'"), " ", what));
}

void JsonValue::refuse(const std::string& wanted) const {
  fail(concat(
      "must be ", wanted, ", not ",
      shown(value_->dump(-1, ' ', false, json::error_handler_t::replace))));
}

std::string JsonValue::key_of(std::string_view member) const {
  return key_.empty() ? shown(member) : concat(key_, ".", shown(member));
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!is_object()) refuse("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonValue(*found, *source_, key_of(key));
}

JsonValue JsonValue::at(std::string_view key) const {
  if (const auto found = find(key)) return *found;
  source_->fail(concat("key '", key_of(key), "' is missing"));
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  if (!is_object()) refuse("an object");
  std::vector<std::pair<std::string, JsonValue>> all;
  for (const auto& [key, value] : value_->items())
    all.emplace_back(key, JsonValue(value, *source_, key_of(key)));
  return all;
}

std::vector<JsonValue> JsonValue::items() const {
  if (!value_->is_array()) refuse("a list");
  std::vector<JsonValue> all;
  all.reserve(value_->size());
  for (const nlohmann::json& item : *value_)
    all.emplace_back(item, *source_, concat(key_, "[", all.size(), "]"));
  return all;
}

void JsonValue::allow_only(const std::vector<std::string_view>& known) const {
  for (const auto& [key, value] : members())
    if (std::find(known.begin(), known.end(), key) == known.end())
      value.fail(concat("is unknown", did_you_mean(shown(key), known),
                        "; use one of ", join(known, ", ")));
}

std::string JsonValue::text() const {
  if (!is_text()) refuse("a string");
  return value_->get<std::string>();
}

bool JsonValue::truth() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

double JsonValue::number() const {
  if (!value_->is_number()) refuse("a number");
  return value_->get<double>();
}

std::int64_t JsonValue::whole_number(std::int64_t least,
                                     std::int64_t most) const {
  constexpr double kExact = 0x1p53;
  std::optional<std::int64_t> number;
  if (value_->is_number_unsigned()) {
    const auto natural = value_->get<std::uint64_t>();
    if (std::in_range<std::int64_t>(natural))
      number = static_cast<std::int64_t>(natural);
  } else if (value_->is_number_integer()) {
    number = value_->get<std::int64_t>();
  } else if (value_->is_number()) {  // such as 1e3
    const auto real = value_->get<double>();
    if (std::abs(real) <= kExact && real == std::floor(real))
      number = static_cast<std::int64_t>(real);
  }
  if (!number || *number < least || *number > most)
    refuse(concat("a whole number from ", least, " to ", most));
  return *number;
}

std::uint64_t JsonValue::natural_number(std::uint64_t least) const {
  if (!value_->is_number_unsigned()) {
    const auto most = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::uint64_t>(whole_number(
        static_cast<std::int64_t>(std::min<std::uint64_t>(least, most)), most));
  }
  const auto number = value_->get<std::uint64_t>();
  if (number < least) refuse(concat("a whole number of at least ", least));
  return number;
}

}  // namespace sheaf
