#pragma once
// Messages on standard error, for people. Any thread may call any of this, and
// nothing here throws, so destructors may log.
//
// The environment variable SHEAF_LOG sets the level: debug, info, warn (the
// default), error or off.

#include <fmt/core.h>

#include <string_view>

namespace sheaf {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };
LogLevel parse_log_level(std::string_view name);  // UsageError lists the names

// Goes before SHEAF_LOG.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

// From now on every line of this process names rank `rank`; -1 names none.
void set_log_rank(int rank) noexcept;

// Writes one line if `level` is enabled. log_info and so on are easier to use.
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
