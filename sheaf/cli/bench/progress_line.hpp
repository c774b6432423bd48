#pragma once
// The progress line of ranks whose output goes through the launcher.

#include <optional>
#include <string>
#include <string_view>

#include "sheaf/base/progress.hpp"

namespace sheaf::cli {

// Where a line can be drawn: "out:80" when standard output is a terminal,
// "err:80" when only standard error is, with its width; else empty. Rows and
// line share standard output where both can, so that they come in order.
std::string progress_place();

class ProgressLine {
 public:
  explicit ProgressLine(const std::string& place);  // of progress_place()

  void update(double fraction, std::string_view text);
  void clear();

 private:
  std::optional<Progress> progress_;
};

}  // namespace sheaf::cli
