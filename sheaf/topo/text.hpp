#pragma once
// What this layer's parsers need beside base's text helpers.

#include <optional>
#include <string_view>
#include <vector>

namespace sheaf::topo {

// The words between white space.
std::vector<std::string_view> words(std::string_view text);

// A number >= 0 made of digits only; nothing when it is anything else or
// does not fit an int.
std::optional<int> parse_count(std::string_view text) noexcept;

}  // namespace sheaf::topo
