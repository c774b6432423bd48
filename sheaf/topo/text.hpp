#pragma once
// Small text helpers of this layer's parsers.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::topo {

// Without blanks, tabs and carriage returns at both ends.
std::string_view trim(std::string_view text) noexcept;

// The pieces between separators; empty pieces are kept, so that a parser can
// complain about them.
std::vector<std::string_view> split(std::string_view text, char separator);

// The words between blanks.
std::vector<std::string_view> words(std::string_view text);

// A number >= 0 made of digits only; nothing when it is anything else or
// does not fit an int.
std::optional<int> parse_count(std::string_view text) noexcept;

// The candidate with the fewest edits from `word`; empty when none is near
// enough to be a likely slip of the keyboard.
std::string_view nearest(std::string_view word,
                         const std::vector<std::string_view>& candidates);

// "a, b, c".
std::string join(const std::vector<std::string_view>& items,
                 std::string_view separator = ", ");

}  // namespace sheaf::topo
