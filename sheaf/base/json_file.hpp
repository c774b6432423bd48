#pragma once
// Reads JSON files, of which no byte is trusted: every error names the file and
// the line or the key, and ends with what to do.

#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sheaf {

struct JsonSource {
  std::string name;      // of the file; begins every error
  std::string advice{};  // ends every error, such as "record it again"
  // Users write such files: errors are UsageErrors instead of IoErrors.
  bool is_by_user = false;
  bool has_lines = true;  // false: the text is one line of a file

  [[noreturn]] void fail(const std::string& what) const;
};

// Parses `text`. Throws an error of the source for anything but one JSON value
// in UTF-8, for numbers that no double can hold, keys that an object has twice,
// and values nested deeper than kMaxJsonDepth: what it returns can be copied,
// compared and printed recursively. Uses up to about 50 bytes of memory per
// byte of text.
inline constexpr std::size_t kMaxJsonDepth = 64;
nlohmann::json parse_json(std::string_view text, const JsonSource& source);

// A value of a parsed file and its key there, such as "hosts[2].name". Reading
// it as another type, or a number out of range, throws an error of the source.
// The value and the source must outlive it.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, const JsonSource& source,
            std::string key = "")
      : value_(&value), source_(&source), key_(std::move(key)) {}

  const nlohmann::json& json() const { return *value_; }
  bool is_object() const { return value_->is_object(); }
  bool is_text() const { return value_->is_string(); }

  // The member `key`; the value must be an object. at() requires the member.
  std::optional<JsonValue> find(std::string_view key) const;
  JsonValue at(std::string_view key) const;
  // All members of an object, and all items of an array.
  std::vector<std::pair<std::string, JsonValue>> members() const;
  std::vector<JsonValue> items() const;
  // Throws if the object has a key that is not in `known`.
  void allow_only(const std::vector<std::string_view>& known) const;

  std::string text() const;
  bool truth() const;
  double number() const;
  template <std::integral T>
  T whole(T least = std::numeric_limits<T>::min(),
          T most = std::numeric_limits<T>::max()) const {
    return std::in_range<std::int64_t>(most)
               ? static_cast<T>(whole_number(static_cast<std::int64_t>(least),
                                             static_cast<std::int64_t>(most)))
               : static_cast<T>(
                     natural_number(static_cast<std::uint64_t>(least)));
  }

  // The value as T: std::string, bool, double, an integer, or a vector of them.
  template <class T>
  T as() const {
    if constexpr (std::same_as<T, std::string>)
      return text();
    else if constexpr (std::same_as<T, bool>)
      return truth();
    else if constexpr (std::floating_point<T>)
      return number();
    else if constexpr (std::integral<T>)
      return whole<T>();
    else
      return list<typename T::value_type>();
  }
  // The member `key` as T, or `otherwise` if there is none.
  template <class T>
  T value(std::string_view key, T otherwise) const {
    const auto found = find(key);
    return found ? found->template as<T>() : otherwise;
  }
  std::string value(std::string_view key, const char* otherwise) const {
    return value(key, std::string(otherwise));
  }

  // Throws "NAME: key 'KEY' WHAT; ADVICE".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  template <class T>
  std::vector<T> list() const {
    std::vector<T> all;
    for (const JsonValue& item : items()) all.push_back(item.template as<T>());
    return all;
  }
  std::int64_t whole_number(std::int64_t least, std::int64_t most) const;
  std::uint64_t natural_number(std::uint64_t least) const;
  std::string key_of(std::string_view member) const;
  // "must be a string, not 5"
  [[noreturn]] void refuse(const std::string& wanted) const;

  const nlohmann::json* value_;
  const JsonSource* source_;
  std::string key_;
};

}  // namespace sheaf
