#include "sheaf/base/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warn",
                                                 "error", "off"};

std::atomic<int> g_rank{-1};

spdlog::level::level_enum to_spdlog(LogLevel level) noexcept {
  constexpr std::array kLevels{spdlog::level::debug, spdlog::level::info,
                               spdlog::level::warn, spdlog::level::err,
                               spdlog::level::off};
  return kLevels[static_cast<std::size_t>(level)];
}

void set_level_from_environment(spdlog::logger& logger) {
  const char* name = std::getenv("SHEAF_LOG");
  if (!name || !*name) return;
  try {
    logger.set_level(to_spdlog(parse_log_level(name)));
  } catch (const UsageError& error) {
    logger.warn("SHEAF_LOG: {}", error.what());
  }
}

// Never destroyed, because destructors of other static objects may still log.
// Not registered with spdlog, so that it does not interfere with the program's
// own use of spdlog.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto* made = new spdlog::logger("sheaf", std::move(sink));
    made->set_pattern("[%H:%M:%S.%e] [%n] [%l] %v");
    made->set_level(spdlog::level::warn);
    set_level_from_environment(*made);
    return made;
  }();
  return *instance;
}

}  // namespace

LogLevel parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  throw UsageError(concat("unknown log level '", name, "'; use one of ",
                          join(kNames, ", "), did_you_mean(name, kNames)));
}

void set_log_level(LogLevel level) noexcept {
  logger().set_level(to_spdlog(level));
}

LogLevel log_level() noexcept {
  const auto level = logger().level();
  for (std::size_t i = 0; i + 1 < kNames.size(); ++i)
    if (to_spdlog(static_cast<LogLevel>(i)) == level)
      return static_cast<LogLevel>(i);
  return LogLevel::kOff;
}

void set_log_rank(int rank) noexcept { g_rank = rank; }

void log_message(LogLevel level, fmt::string_view format,
                 fmt::format_args args) noexcept {
  try {
    if (level == LogLevel::kOff || !logger().should_log(to_spdlog(level)))
      return;
    const int rank = g_rank;
    std::string line = rank < 0 ? "" : fmt::format("rank {}: ", rank);
    line += fmt::vformat(format, args);
    logger().log(to_spdlog(level), spdlog::string_view_t(line));
  } catch (...) {
    // Out of memory, or standard error is closed: this cannot be reported.
  }
}

}  // namespace sheaf
