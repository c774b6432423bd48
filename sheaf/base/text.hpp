#pragma once
// String utilities.

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf {

// Splits `text` at each separator and keeps empty pieces: "a,,b" gives "a", "",
// "b", and "" gives one empty piece. The pieces point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

// The words of `text`: splits at white space. They point into `text`.
std::vector<std::string_view> words(std::string_view text);

// `text` without leading and trailing white space; points into `text`.
std::string_view trim(std::string_view text) noexcept;

// Parses a number >= 0 made of digits only; nullopt for anything else, or if it
// does not fit into an int.
std::optional<int> parse_count(std::string_view text) noexcept;

std::string join(std::span<const std::string> parts,
                 std::string_view separator);
std::string join(std::span<const std::string_view> parts,
                 std::string_view separator);

// Number of edits that turn `a` into `b`: inserting, deleting or replacing a
// character, or swapping two neighbors.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance to `word`, if it is close
// enough to be a typo, or "". The first one if several are equally close.
// Points into `candidates`.
std::string_view nearest_word(std::string_view word,
                              std::span<const std::string_view> candidates);

// "; did you mean 'ring'?" to append to an error message, or "".
std::string did_you_mean(std::string_view word,
                         std::span<const std::string_view> candidates);

// Number of terminal columns of `text`: its UTF-8 characters, each counted as
// one column wide.
std::size_t display_width(std::string_view text) noexcept;

// Offset of the first byte that no text file contains: one that is not UTF-8,
// or a control character other than tab, line feed and carriage return. npos if
// there is none.
std::size_t find_not_text(std::string_view text) noexcept;

// `text` for an error message, when it comes from a file that may hold
// anything: bytes as above and line ends become "\x1b", and what exceeds `most`
// bytes becomes "...".
std::string printable(std::string_view text, std::size_t most = 200);

// The error message in one line, without libtorch's call stack and source
// location.
std::string one_line(const std::exception& error);

}  // namespace sheaf
