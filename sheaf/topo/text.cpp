#include "sheaf/topo/text.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace sheaf::topo {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

// Levenshtein's distance, one row at a time.
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view trim(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  std::size_t end;
  while ((end = text.find(separator)) != std::string_view::npos) {
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  pieces.push_back(text);
  return pieces;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!(text = trim(text)).empty()) {
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return found;
}

std::optional<int> parse_count(std::string_view text) noexcept {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || text[0] == '-')
    return std::nullopt;
  return value;
}

std::string_view nearest(std::string_view word,
                         const std::vector<std::string_view>& candidates) {
  std::string_view best;
  std::size_t fewest = word.size() / 2 + 2;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edits(word, candidate);
    if (distance >= fewest) continue;
    fewest = distance;
    best = candidate;
  }
  return best;
}

std::string join(const std::vector<std::string_view>& items,
                 std::string_view separator) {
  std::string text;
  for (const std::string_view item : items) {
    if (!text.empty()) text += separator;
    text += item;
  }
  return text;
}

}  // namespace sheaf::topo
