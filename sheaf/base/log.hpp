#pragma once
// Log messages for people, written to standard error. Any thread may call these
// functions. The logging functions do not throw, so destructors may log.
//
// The environment variable SHEAF_LOG sets the level: debug, info, warn (the
// default), error or off.

#include <fmt/core.h>

#include <string_view>

namespace sheaf {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };
LogLevel parse_log_level(std::string_view name);  // UsageError lists the names

// Overrides SHEAF_LOG.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

// Prefixes every later line of this process with rank `rank`; -1: no prefix.
void set_log_rank(int rank) noexcept;

// Writes one line if `level` is enabled. Prefer log_debug() to log_error().
void log_message(LogLevel level, fmt::string_view format,
                 fmt::format_args args) noexcept;

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
  log_message(LogLevel::kDebug, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) noexcept {
  log_message(LogLevel::kInfo, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) noexcept {
  log_message(LogLevel::kWarn, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) noexcept {
  log_message(LogLevel::kError, format, fmt::make_format_args(args...));
}

}  // namespace sheaf
