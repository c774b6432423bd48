// Node lists of Slurm, such as "a1,node[01-03,7],r[0-1]n[2-3]-ib".
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kMostHosts = 1 << 16;
constexpr std::size_t kMostDigits = 18;
constexpr std::size_t kMostLetters = 255;  // of a host name

[[noreturn]] void refuse_list(std::string_view list, const std::string& why) {
  throw UsageError(concat("node list '", printable(list), "' ", why,
                          "; write host names and ranges such as "
                          "node[01-03,7]"));
}

// Of up to 18 digits: a name of thousands of them is no host, and many such
// would fill the memory.
std::optional<std::int64_t> number_of(std::string_view digits) {
  std::int64_t value = 0;
  const auto* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || digits.size() > kMostDigits || error != std::errc() ||
      at != end || value < 0)
    return std::nullopt;
  return value;
}

void check_count(std::size_t hosts, std::string_view list) {
  if (hosts > kMostHosts)
    refuse_list(list, concat("has more than ", kMostHosts, " hosts"));
}

// "01-03" gives 01, 02 and 03; "7" gives 7.
std::vector<std::string> numbers_of(std::string_view range,
                                    std::string_view list) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last =
      dash == range.npos ? first : range.substr(dash + 1);
  const auto from = number_of(first);
  const auto to = number_of(last);
  if (!from || !to || *from > *to)
    refuse_list(
        list, concat("has '", printable(range, 40), "', which is not a range"));
  check_count(static_cast<std::size_t>(*to - *from) + 1, list);
  std::vector<std::string> numbers;
  for (std::int64_t number = *from; number <= *to; ++number)
    numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  return numbers;
}

// All concatenations of an element of `names` and an element of `ends`.
std::vector<std::string> combined(const std::vector<std::string>& names,
                                  const std::vector<std::string>& ends,
                                  std::string_view list) {
  check_count(names.size() * ends.size(), list);
  std::vector<std::string> result;
  for (const std::string& name : names)
    for (const std::string& end : ends) {
      if (name.size() + end.size() > kMostLetters)
        refuse_list(list, concat("has a host name of more than ", kMostLetters,
                                 " characters"));
      result.push_back(name + end);
    }
  return result;
}

// Expands one entry, which may contain several brackets.
std::vector<std::string> hosts_of(std::string_view entry,
                                  std::string_view list) {
  std::vector<std::string> hosts{""};
  while (!entry.empty()) {
    const std::size_t open = entry.find('[');
    const std::string_view plain = entry.substr(0, open);
    if (plain.find(']') != plain.npos) refuse_list(list, "has an extra ']'");
    hosts = combined(hosts, {std::string(plain)}, list);
    if (open == entry.npos) break;
    const std::size_t close = entry.find(']', open);
    if (close == entry.npos) refuse_list(list, "lacks a ']'");
    std::vector<std::string> ends;
    for (const auto range :
         split(entry.substr(open + 1, close - open - 1), ',')) {
      for (std::string& number : numbers_of(range, list))
        ends.push_back(std::move(number));
      check_count(ends.size(), list);
    }
    hosts = combined(hosts, ends, list);
    entry.remove_prefix(close + 1);
  }
  return hosts;
}

// Splits the list at the commas outside of brackets.
std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    entries.push_back(trim(list.substr(begin, i - begin)));
    begin = i + 1;
  }
  return entries;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list) {
  std::vector<std::string> all;
  for (const auto entry : entries_of(list)) {
    if (entry.empty()) refuse_list(list, "has an empty entry");
    for (std::string& host : hosts_of(entry, list))
      all.push_back(std::move(host));
    check_count(all.size(), list);
  }
  return all;
}

}  // namespace sheaf::comm
