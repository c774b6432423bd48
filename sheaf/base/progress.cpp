#include "sheaf/base/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf {
namespace {

constexpr std::size_t kBarColumns = 20;
constexpr std::string_view kToLineStartAndErase = "\r\x1b[K";

// Cuts between characters, not within one.
std::string cut(const std::string& text, std::size_t columns) {
  std::size_t end = text.size();
  while (display_width({text.data(), end}) > columns) --end;
  return text.substr(0, end);
}

std::string time_left(std::chrono::nanoseconds elapsed, double fraction) {
  // The first moments say little about the rest.
  if (fraction < 0.01 || fraction >= 1) return "";
  const double left =
      static_cast<double>(elapsed.count()) * (1 - fraction) / fraction;
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
    // The terminal is gone, and with it the line.
  }
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
  const auto done =
      static_cast<std::size_t>(fraction * static_cast<double>(kBarColumns));
  const std::string bar =
      std::string(done, '#') + std::string(kBarColumns - done, '.');
  const int percent = static_cast<int>(fraction * 100);
  // A line as wide as the terminal would wrap and could not be erased.
  return cut(fmt::format("[{}] {:3} %  {}{}", bar, percent, text,
                         time_left(options_.now() - start_, fraction)),
             options_.columns - 1);
}

}  // namespace sheaf
