#pragma once
// Sizes and durations, read from people and written for people.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sheaf {

// "8", "8B", "64K", "1M", "128MiB", "1.5G": bytes, in powers of 1024 as in
// nccl-tests; K, KB and KiB mean the same, capital or not. UsageError for
// anything else, and for what is no whole number of bytes.
std::uint64_t parse_bytes(std::string_view text);

// "8 B", "64 KiB", "1.5 MiB": at most two digits after the point.
std::string format_bytes(std::uint64_t bytes);

// The shortest text that parse_bytes() reads back as the same number:
// "64K", "1M", "1000".
std::string format_bytes_exactly(std::uint64_t bytes);

// "500ms", "30s", "5m" (or "5min"), "1.5h", "20us", "100ns". A number without
// a unit is an error, except 0.
std::chrono::nanoseconds parse_duration(std::string_view text);

// "640 ns", "12.3 us", "4.56 ms", "30.0 s", "2 min 05 s", "3 h 07 min".
std::string format_duration(std::chrono::nanoseconds duration);

}  // namespace sheaf
