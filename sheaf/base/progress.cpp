#include "sheaf/base/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf {
namespace {

constexpr std::size_t kBarColumns = 20;
constexpr std::size_t kLeastBarColumns = 5;
constexpr std::string_view kToLineStartAndErase = "\r\x1b[K";

// Shortens `text` to `columns` by dropping fields from the end. Fields are
// separated by two spaces and dropped whole, since a truncated number would be
// misleading.
std::string cut(std::string text, std::size_t columns) {
  while (display_width(text) > columns) {
    const std::size_t gap = text.rfind("  ");
    text.resize(gap == std::string::npos ? text.size() - 1 : gap);
  }
  return text;
}

std::size_t minus(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

std::string bar(double fraction, std::size_t room) {
  const std::size_t size =
      std::clamp(minus(room, 2), kLeastBarColumns, kBarColumns);
  const auto done =
      static_cast<std::size_t>(fraction * static_cast<double>(size));
  return "[" + std::string(done, '#') + std::string(size - done, '.') + "]";
}

// Estimates the time left: the fraction `done` took `elapsed`, and the fraction
// `rest` remains.
std::string time_left(std::chrono::nanoseconds elapsed, double done,
                      double rest) {
  // The first measurements are too noisy to extrapolate.
  if (done < 0.01 || rest <= 0) return "";
  const double left = static_cast<double>(elapsed.count()) * rest / done;
  return "  " +
         format_duration(
             std::chrono::nanoseconds(static_cast<std::int64_t>(left))) +
         " left";
}

}  // namespace

ProgressOptions progress_on_stderr() {
  ProgressOptions options;
  options.is_terminal = isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    options.columns = size.ws_col;
  return options;
}

Progress::Progress(std::ostream& out, ProgressOptions options)
    : out_(out), options_(std::move(options)), start_(options_.now()) {}

Progress::Progress() : Progress(std::cerr, progress_on_stderr()) {}

Progress::~Progress() {
  try {
    clear();
  } catch (...) {
    // The terminal is gone; there is nothing to clear.
  }
}

void Progress::start_at(double fraction) {
  start_fraction_ = fraction;
  start_ = options_.now();
}

void Progress::update(double fraction, std::string_view text) {
  if (!options_.is_terminal) return;
  const auto now = options_.now();
  if (is_drawn_ && now - drawn_at_ < options_.interval) return;
  out_ << kToLineStartAndErase << line(std::clamp(fraction, 0.0, 1.0), text)
       << std::flush;
  drawn_at_ = now;
  is_drawn_ = true;
}

void Progress::clear() {
  if (!is_drawn_) return;
  out_ << kToLineStartAndErase << std::flush;
  is_drawn_ = false;
}

std::string Progress::line(double fraction, std::string_view text) const {
  std::string words =
      fmt::format(" {:3} %  {}{}", static_cast<int>(fraction * 100), text,
                  time_left(options_.now() - start_, fraction - start_fraction_,
                            1 - fraction));
  // A line as wide as the terminal would wrap and could not be erased. Two more
  // columns are left for the ^C that the terminal may append.
  const std::size_t columns = options_.columns - 3;
  words = cut(words, minus(columns, kLeastBarColumns + 2));
  return cut(bar(fraction, minus(columns, display_width(words))) + words,
             columns);
}

std::string progress_place() {
  const ProgressOptions options = progress_on_stderr();
  if (!options.is_terminal) return "";
  return concat(::isatty(STDOUT_FILENO) ? "out:" : "err:", options.columns);
}

RankProgress::RankProgress(const std::string& place) {
  if (place.size() < 5) return;
  ProgressOptions options;
  options.is_terminal = true;
  options.columns = std::strtoul(place.c_str() + 4, nullptr, 10);
  progress_.emplace(place.rfind("out:", 0) == 0 ? std::cout : std::cerr,
                    options);
}

void RankProgress::update(double fraction, std::string_view text) {
  if (progress_) progress_->update(fraction, text);
}

void RankProgress::clear() {
  if (progress_) progress_->clear();
}

}  // namespace sheaf
