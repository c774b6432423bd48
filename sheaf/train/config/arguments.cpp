#include "sheaf/train/config/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::train {

ArgumentReader::ArgumentReader(const Arguments& arguments, std::string owner)
    : arguments_(arguments), owner_(std::move(owner)) {}

const Argument* ArgumentReader::find(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end())
    known_.push_back(name);
  const auto found = arguments_.find(std::string(name));
  return found == arguments_.end() ? nullptr : &found->second;
}

bool ArgumentReader::has(std::string_view name) { return find(name); }

const Argument& ArgumentReader::need(std::string_view name) {
  const Argument* argument = find(name);
  SHEAF_CHECK(argument, owner_, " needs the argument '", name, "'");
  return *argument;
}

const std::string& ArgumentReader::single(std::string_view name,
                                          const Argument& argument) {
  SHEAF_CHECK(!argument.is_list, owner_, ": ", name,
              " is a list; it must be one value");
  return argument.values.at(0);
}

double ArgumentReader::to_number(std::string_view name,
                                 const std::string& text) const {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  SHEAF_CHECK(!text.empty() && end == text.c_str() + text.size() &&
                  std::isfinite(value),
              owner_, ": ", name, " is '", printable(text, 60),
              "'; it must be a number");
  return value;
}

std::int64_t ArgumentReader::to_whole(std::string_view name,
                                      const std::string& text) const {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  SHEAF_CHECK(result.ec == std::errc() && result.ptr == end, owner_, ": ", name,
              " is '", printable(text, 60), "'; it must be a whole number");
  return value;
}

std::int64_t ArgumentReader::whole(std::string_view name,
                                   std::optional<std::int64_t> otherwise) {
  if (otherwise && !find(name)) return *otherwise;
  return to_whole(name, single(name, need(name)));
}

double ArgumentReader::number(std::string_view name,
                              std::optional<double> otherwise) {
  if (otherwise && !find(name)) return *otherwise;
  return to_number(name, single(name, need(name)));
}

std::vector<double> ArgumentReader::numbers(std::string_view name) {
  std::vector<double> values;
  for (const std::string& text : need(name).values)
    values.push_back(to_number(name, text));
  return values;
}

std::vector<std::int64_t> ArgumentReader::wholes(
    std::string_view name, std::vector<std::int64_t> otherwise) {
  const Argument* argument = find(name);
  if (!argument) return otherwise;
  std::vector<std::int64_t> values;
  for (const std::string& text : argument->values)
    values.push_back(to_whole(name, text));
  return values;
}

void ArgumentReader::finish() const {
  for (const auto& [name, argument] : arguments_) {
    const bool is_known =
        std::find(known_.begin(), known_.end(), name) != known_.end();
    SHEAF_CHECK(is_known, owner_, " has no argument '", name, "'",
                did_you_mean(name, known_), "; it takes ",
                known_.empty() ? "none" : join(known_, ", "));
  }
}

}  // namespace sheaf::train
