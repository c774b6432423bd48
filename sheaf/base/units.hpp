#pragma once
// Parses and formats sizes and durations in human-readable form.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sheaf {

// Parses a size in bytes such as "8", "8B", "64K", "1M", "128MiB" or "1.5G".
// Units are powers of 1024, as in nccl-tests: K, KB and KiB are equivalent, in
// upper or lower case. Throws UsageError for anything else, and if the result
// is not a whole number of bytes.
std::uint64_t parse_bytes(std::string_view text);

// "8 B", "64 KiB", "1.5 MiB": at most two decimals.
std::string format_bytes(std::uint64_t bytes);

// Formats the size with a unit only if it is exact, so that parse_bytes()
// returns the same number: "64K", "1M", "1000".
std::string format_bytes_exactly(std::uint64_t bytes);

// Parses a duration such as "500ms", "30s", "5m" (or "5min"), "1.5h", "20us" or
// "100ns". Throws UsageError for anything else, including a number without a
// unit other than 0.
std::chrono::nanoseconds parse_duration(std::string_view text);

// "640 ns", "12.3 us", "4.56 ms", "30.0 s", "2 min 05 s", "3 h 07 min".
std::string format_duration(std::chrono::nanoseconds duration);

}  // namespace sheaf
