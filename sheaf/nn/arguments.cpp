#include "sheaf/nn/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::nn {
namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc{} || result.ptr != end) return {};
  return value;
}

std::vector<std::string_view> names_of(const std::vector<ArgumentSpec>& specs) {
  std::vector<std::string_view> names;
  for (const ArgumentSpec& spec : specs) names.push_back(spec.name);
  return names;
}

}  // namespace

Arguments::Arguments(std::string owner, std::vector<ArgumentSpec> specs,
                     const std::map<std::string, std::string>& given)
    : owner_(std::move(owner)) {
  const auto names = names_of(specs);
  for (const auto& [name, value] : given) {
    const bool is_known =
        std::find(names.begin(), names.end(), name) != names.end();
    SHEAF_CHECK(is_known, owner_, " has no argument '", name, "'",
                did_you_mean(name, names),
                "; allowed: ", names.empty() ? "none" : join(names, ", "));
  }
  for (const ArgumentSpec& spec : specs) {
    const auto found = given.find(std::string(spec.name));
    const bool is_given = found != given.end();
    SHEAF_CHECK(is_given || spec.fallback != kRequired, owner_,
                " needs the argument '", spec.name, "'");
    values_[std::string(spec.name)] =
        is_given ? found->second : std::string(spec.fallback);
  }
}

const std::string& Arguments::text(std::string_view name) const {
  const auto found = values_.find(name);
  SHEAF_ASSERT(found != values_.end(), owner_, " declares no argument ", name);
  return found->second;
}

std::int64_t Arguments::integer(std::string_view name,
                                std::int64_t least) const {
  const auto value = parse<std::int64_t>(text(name));
  if (!value || *value < least)
    refuse(name, concat("an integer of at least ", least));
  return *value;
}

std::optional<std::int64_t> Arguments::inferred(std::string_view name) const {
  if (text(name) == kInferred) return std::nullopt;
  return integer(name);
}

double Arguments::real(std::string_view name) const {
  const auto value = parse<double>(text(name));
  if (!value || !std::isfinite(*value)) refuse(name, "a number");
  return *value;
}

double Arguments::probability(std::string_view name) const {
  const auto value = parse<double>(text(name));
  if (!value || !(*value >= 0 && *value <= 1))
    refuse(name, "a number from 0 to 1");
  return *value;
}

bool Arguments::flag(std::string_view name) const {
  const std::string& value = text(name);
  for (const std::string_view word : {"true", "yes", "on", "1"})
    if (value == word) return true;
  for (const std::string_view word : {"false", "no", "off", "0"})
    if (value == word) return false;
  refuse(name, "true or false");
}

std::vector<std::int64_t> Arguments::integers(std::string_view name,
                                              std::int64_t least) const {
  std::string list = text(name);
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::replace(list.begin(), list.end(), 'x', ',');
  std::replace(list.begin(), list.end(), '-', ',');
  std::vector<std::int64_t> values;
  for (const std::string_view piece : split(list, ',')) {
    const auto value = parse<std::int64_t>(piece);
    if (!value || *value < least)
      refuse(name, concat("a list of integers of at least ", least,
                          ", such as 784-256-10 or 28x28"));
    values.push_back(*value);
  }
  return values;
}

std::vector<std::int64_t> Arguments::axes(std::string_view name,
                                          std::size_t count,
                                          std::int64_t least) const {
  auto values = integers(name, least);
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() != count)
    refuse(name, concat("one number or ", count, " numbers, such as 3x5"));
  return values;
}

const std::string& Arguments::choice(
    std::string_view name, const std::vector<std::string_view>& words) const {
  const std::string& value = text(name);
  if (std::find(words.begin(), words.end(), value) == words.end())
    refuse(name, "one of " + join(words, ", ") + did_you_mean(value, words));
  return value;
}

void Arguments::refuse(std::string_view name, std::string_view allowed) const {
  throw UsageError(
      concat(owner_, ": '", text(name), "' for '", name, "' is not ", allowed));
}

}  // namespace sheaf::nn
