#pragma once
// Small helpers for text.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf {

// The pieces between separators, empty ones too: "a,,b" gives "a", "", "b",
// and "" gives one empty piece. The pieces point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

// `text` without white space at both ends.
std::string_view trim(std::string_view text) noexcept;

std::string join(std::span<const std::string> parts,
                 std::string_view separator);
std::string join(std::span<const std::string_view> parts,
                 std::string_view separator);

// How many letters must be put in, left out, changed or swapped with their
// neighbour to make `b` out of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word` that may be meant by it (the first such, when
// several are as near), or "". It points into `candidates`.
std::string_view nearest_word(std::string_view word,
                              std::span<const std::string_view> candidates);

// "; did you mean 'ring'?" to put behind an error message, or "".
std::string did_you_mean(std::string_view word,
                         std::span<const std::string_view> candidates);

// How many columns of a terminal `text` takes: its UTF-8 characters, each
// counted as one column wide.
std::size_t display_width(std::string_view text) noexcept;

}  // namespace sheaf
