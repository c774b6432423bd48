// Finds the keys that differ between two configs.
#include <fmt/format.h>

#include <algorithm>
#include <concepts>

#include "sheaf/base/text.hpp"
#include "sheaf/train/config/config_fields.hpp"

namespace sheaf::train {
namespace {

std::string value_text(const Argument& argument) {
  const std::string text = join(argument.values, ", ");
  return argument.is_list ? "[" + text + "]" : text;
}

std::string value_text(const Item& item) {
  std::string text = item.name;
  const char* separator = ": {";
  for (const auto& [name, argument] : item.arguments) {
    text += separator + name + ": " + value_text(argument);
    separator = ", ";
  }
  return item.arguments.empty() ? text : text + "}";
}

// All keys with their values as text, in config order.
class ConfigTexts {
 public:
  void field(std::string_view key, const std::string& value) {
    add(key, value);
  }
  void field(std::string_view key, bool value) {
    add(key, value ? "true" : "false");
  }
  void field(std::string_view key, double value, const Range&) {
    add(key, fmt::format("{}", value));
  }
  template <std::signed_integral T>
  void field(std::string_view key, T value, const Range&) {
    add(key, fmt::format("{}", value));
  }
  void choice(std::string_view key, const std::string& value,
              std::initializer_list<std::string_view>) {
    add(key, value);
  }
  void choices(std::string_view key, const std::vector<std::string>& values,
               std::initializer_list<std::string_view>) {
    add(key, value_text(Argument{values, values.size() > 1}));
  }
  void numbers(std::string_view key, const std::vector<std::int64_t>& values,
               const Range&) {
    choices(key, number_texts(values), {});
  }
  void items(std::string_view key, const std::vector<Item>& items) {
    std::vector<std::string> list;
    for (const Item& item : items) list.push_back(value_text(item));
    add(key, "[" + join(list, ", ") + "]");
  }
  void arguments(std::string_view key, const Arguments& arguments) {
    for (const auto& [name, argument] : arguments)
      add(std::string(key) + "." + name, value_text(argument));
  }
  template <class Section>
  void section(std::string_view key, Section& section) {
    prefix_ = std::string(key) + ".";
    visit(*this, section);
    prefix_.clear();
  }

  std::vector<std::pair<std::string, std::string>> list;

 private:
  void add(std::string_view key, std::string text) {
    list.emplace_back(prefix_ + std::string(key), std::move(text));
  }
  std::string prefix_;
};

ConfigTexts texts_of(RunConfig config) {
  ConfigTexts texts;
  visit(texts, config);
  return texts;
}

bool is_resumable(const std::string& key) {
  return std::any_of(kResumableKeys.begin(), kResumableKeys.end(),
                     [&](const std::string& one) {
                       return key == one || key.starts_with(one + ".");
                     });
}

}  // namespace

std::vector<ConfigChange> changes_between(const RunConfig& before,
                                          const RunConfig& after) {
  const bool needs_length =
      before.schedule.name == "cosine" || after.schedule.name == "cosine";
  const auto old_texts = texts_of(before).list;
  std::map<std::string, std::string> old(old_texts.begin(), old_texts.end());
  std::vector<ConfigChange> changes;
  const auto add = [&](const std::string& key, const std::string& was,
                       const std::string& is) {
    if (was == is) return;
    const bool is_free =
        is_resumable(key) && (key != "epochs" || !needs_length);
    changes.push_back({key, was, is, !is_free});
  };
  for (const auto& [key, text] : texts_of(after).list) {
    const auto found = old.find(key);
    add(key, found == old.end() ? "" : found->second, text);
    if (found != old.end()) old.erase(found);
  }
  for (const auto& [key, text] : old) add(key, text, "");
  return changes;
}

}  // namespace sheaf::train
