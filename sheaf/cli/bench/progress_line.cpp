#include "sheaf/cli/bench/progress_line.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {

std::string progress_place() {
  const ProgressOptions options = progress_on_stderr();
  if (!options.is_terminal) return "";
  return concat(::isatty(STDOUT_FILENO) ? "out:" : "err:", options.columns);
}

ProgressLine::ProgressLine(const std::string& place) {
  if (place.size() < 5) return;
  ProgressOptions options;
  options.is_terminal = true;
  options.columns = std::strtoul(place.c_str() + 4, nullptr, 10);
  progress_.emplace(place.rfind("out:", 0) == 0 ? std::cout : std::cerr,
                    options);
}

void ProgressLine::update(double fraction, std::string_view text) {
  if (progress_) progress_->update(fraction, text);
}

void ProgressLine::clear() {
  if (progress_) progress_->clear();
}

}  // namespace sheaf::cli
