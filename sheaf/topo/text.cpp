#include "sheaf/topo/text.hpp"

#include <algorithm>
#include <charconv>

#include "sheaf/base/text.hpp"

namespace sheaf::topo {

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

std::optional<int> parse_count(std::string_view text) noexcept {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || text[0] == '-')
    return std::nullopt;
  return value;
}

}  // namespace sheaf::topo
