#pragma once
// The progress line of ranks whose output is forwarded by the launcher.

#include <optional>
#include <string>
#include <string_view>

#include "sheaf/base/progress.hpp"

namespace sheaf::cli {

// The stream for the progress line and its width: "out:80" if standard output
// is a terminal, "err:80" if only standard error is, else empty. Standard
// output is preferred, so that rows and the progress line stay in order.
std::string progress_place();

class ProgressLine {
 public:
  explicit ProgressLine(const std::string& place);  // from progress_place()

  void update(double fraction, std::string_view text);
  void clear();

 private:
  std::optional<Progress> progress_;
};

}  // namespace sheaf::cli
