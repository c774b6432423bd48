#include "sheaf/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace sheaf {
namespace {

template <class Part>
std::string join_parts(std::span<const Part> parts,
                       std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    pieces.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string join(std::span<const std::string> parts,
                 std::string_view separator) {
  return join_parts(parts, separator);
}

std::string join(std::span<const std::string_view> parts,
                 std::string_view separator) {
  return join_parts(parts, separator);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // distance[i][j] is the distance between the first i characters of a and the
  // first j characters of b.
  std::vector<std::vector<std::size_t>> distance(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      distance[i][j] =
          std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                    distance[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool is_swap =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap)
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

namespace {

constexpr std::size_t kMostLetters = 200;  // of a word that may have a typo

}  // namespace

std::string_view nearest_word(std::string_view word,
                              std::span<const std::string_view> candidates) {
  std::string_view nearest;
  // Comparing takes as much memory as the product of the lengths.
  if (word.size() > kMostLetters) return nearest;
  // Up to one wrong letter in three counts as a typo.
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kMostLetters) continue;
    const std::size_t distance = edit_distance(word, candidate);
    // With as many edits as letters, any word could become the candidate.
    if (distance >= best || distance >= candidate.size()) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string did_you_mean(std::string_view word,
                         std::span<const std::string_view> candidates) {
  const std::string_view nearest = nearest_word(word, candidates);
  if (nearest.empty()) return "";
  return "; did you mean '" + std::string(nearest) + "'?";
}

std::size_t display_width(std::string_view text) noexcept {
  const auto starts_character = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  };
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), starts_character));
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!(text = trim(text)).empty()) {
    const std::size_t end =
        std::min(text.find_first_of(" \t\r\n\v\f"), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return found;
}

namespace {

constexpr bool is_within(unsigned char byte, int low, int high) {
  return byte >= low && byte <= high;
}

// Number of bytes of the UTF-8 character at the front of `text`; 0 if there is
// none. Overlong forms, surrogates and values above 10ffff are none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i])
                           : static_cast<unsigned char>(0);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t count = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (!is_within(first, 0xc2, 0xf4)) return 0;
  const int low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const int high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (!is_within(byte(1), low, high)) return 0;
  for (std::size_t i = 2; i < count; ++i)
    if (!is_within(byte(i), 0x80, 0xbf)) return 0;
  return count;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
}

}  // namespace

std::size_t find_not_text(std::string_view text) noexcept {
  constexpr std::string_view kAllowed = "\t\n\r";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(at, 4));
    const bool is_allowed =
        !is_control(text[at]) || kAllowed.find(text[at]) != text.npos;
    if (bytes == 0 || !is_allowed) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

std::string printable(std::string_view text, std::size_t most) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(at, 4));
    if (at + std::max<std::size_t>(bytes, 1) > most) return shown + "...";
    if (bytes > 0 && !is_control(text[at])) {
      shown += text.substr(at, bytes);
    } else {
      const auto value = static_cast<unsigned char>(text[at]);
      shown += {'\\', 'x', kDigits[value >> 4], kDigits[value & 15]};
    }
    at += std::max<std::size_t>(bytes, 1);
  }
  return shown;
}

std::optional<int> parse_count(std::string_view text) noexcept {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || text[0] == '-')
    return std::nullopt;
  return value;
}

namespace {

// Removes a prefix such as "[enforce fail at alloc_cpu.cpp:66] . ".
std::string_view without_place(std::string_view text) {
  if (text.rfind("[enforce fail at ", 0) != 0) return text;
  const std::size_t end = text.find(']');
  if (end == text.npos) return text;
  const std::size_t rest = text.find_first_not_of(" .", end + 1);
  return rest == text.npos ? text : text.substr(rest);
}

}  // namespace

std::string one_line(const std::exception& error) {
  std::string_view text = error.what();
  for (const char* stack : {"\nException raised from ", "\nframe #"})
    text = text.substr(0, text.find(stack));
  std::string line;
  for (const auto part : split(without_place(trim(text)), '\n')) {
    if (trim(part).empty()) continue;
    if (!line.empty()) line += ' ';
    line += trim(part);
  }
  return line;
}

}  // namespace sheaf
