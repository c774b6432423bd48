#pragma once
// String utilities for the parsers of this layer.

#include <optional>
#include <string_view>
#include <vector>

namespace sheaf::topo {

// Splits at white space.
std::vector<std::string_view> words(std::string_view text);

// Parses a number >= 0 made of digits only; nullopt for anything else, or if it
// does not fit into an int.
std::optional<int> parse_count(std::string_view text) noexcept;

}  // namespace sheaf::topo
