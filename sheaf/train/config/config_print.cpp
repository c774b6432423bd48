#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <concepts>

#include "sheaf/train/config/config_fields.hpp"

namespace sheaf::train {
namespace {

// Writes the YAML that ConfigReader reads.
class ConfigPrinter {
 public:
  ConfigPrinter() { out_ << YAML::BeginMap; }

  void field(std::string_view key, const std::string& value) {
    write_key(key);
    write_text(value);
  }
  void field(std::string_view key, bool value) {
    write_key(key);
    out_ << (value ? "true" : "false");
  }
  void field(std::string_view key, double value, const Range&) {
    write_key(key);
    out_ << fmt::format("{}", value);  // shortest text that reads back exactly
  }
  template <std::signed_integral T>
  void field(std::string_view key, T value, const Range&) {
    write_key(key);
    out_ << fmt::format("{}", value);
  }
  void choice(std::string_view key, const std::string& value,
              std::initializer_list<std::string_view>) {
    field(key, value);
  }
  void choices(std::string_view key, const std::vector<std::string>& values,
               std::initializer_list<std::string_view>) {
    write_key(key);
    write_argument({values, values.size() > 1});
  }
  void numbers(std::string_view key, const std::vector<std::int64_t>& values,
               const Range&) {
    choices(key, number_texts(values), {});
  }

  void items(std::string_view key, const std::vector<Item>& items) {
    write_key(key);
    if (items.empty()) out_ << YAML::Flow;
    out_ << YAML::BeginSeq;
    for (const Item& item : items) write_item(item);
    out_ << YAML::EndSeq;
  }

  void arguments(std::string_view key, const Arguments& arguments) {
    write_key(key);
    write_arguments(arguments);
  }

  template <class Section>
  void section(std::string_view key, Section& section) {
    write_key(key);
    out_ << YAML::BeginMap;
    visit(*this, section);
    out_ << YAML::EndMap;
  }

  std::string text() {
    out_ << YAML::EndMap;
    return std::string(out_.c_str()) + "\n";
  }

 private:
  void write_key(std::string_view key) {
    out_ << YAML::Key << std::string(key) << YAML::Value;
  }

  void write_text(const std::string& value) {
    // yaml-cpp would print these words unquoted, and YAML reads them as null.
    if (value.empty() || value == "~" || value == "null" || value == "Null" ||
        value == "NULL")
      out_ << YAML::DoubleQuoted;
    out_ << value;
  }

  void write_item(const Item& item) {
    if (item.arguments.empty()) {
      write_text(item.name);
      return;
    }
    out_ << YAML::BeginMap;
    write_key(item.name);
    write_arguments(item.arguments);
    out_ << YAML::EndMap;
  }

  void write_arguments(const Arguments& arguments) {
    out_ << YAML::Flow << YAML::BeginMap;
    for (const auto& [name, argument] : arguments) {
      write_key(name);
      write_argument(argument);
    }
    out_ << YAML::EndMap;
  }

  void write_argument(const Argument& argument) {
    if (!argument.is_list) return write_text(argument.values.at(0));
    out_ << YAML::Flow << YAML::BeginSeq;
    for (const std::string& value : argument.values) write_text(value);
    out_ << YAML::EndSeq;
  }

  YAML::Emitter out_;
};

}  // namespace

std::string print_config(const RunConfig& config) {
  ConfigPrinter printer;
  RunConfig copy = config;  // visit() takes mutable references
  visit(printer, copy);
  return printer.text();
}

}  // namespace sheaf::train
