#pragma once
// Numbers of traces, with limits that leave room for sums and differences.

#include <cstdint>
#include <optional>
#include <string_view>

namespace sheaf::plan {

// Times since 1970, up to the year 2096.
inline constexpr std::int64_t kLatestNs = 4'000'000'000'000'000'000;
// Of an event, of a step, and of all events of a trace together: 3 days and 36
// years.
inline constexpr std::int64_t kLongestNs = std::int64_t{1} << 48;
inline constexpr std::int64_t kLongestSumNs = std::int64_t{1} << 60;
// Bytes and elements of an event.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;

// Nanoseconds from a decimal number of microseconds, exactly, or of nanoseconds
// if it is too large for microseconds since 1970, as some writers have them.
// nullopt for anything else, and beyond kLatestNs.
std::optional<std::int64_t> parse_nanoseconds(std::string_view text);

// A whole number, also written as 1e3 or 8.0.
std::optional<std::int64_t> parse_integer(std::string_view text);

}  // namespace sheaf::plan
