#pragma once
// summary.json of a run, see docs/reference/run_folder.md.

#include <map>
#include <optional>
#include <string>

namespace sheaf::train {

struct SummaryFile {
  std::string ending;
  std::map<std::string, double> numbers;

  std::optional<double> number(const std::string& key) const {
    const auto found = numbers.find(key);
    if (found == numbers.end()) return std::nullopt;
    return found->second;
  }
};

// Empty if the text is damaged: a run without a summary has not ended.
SummaryFile parse_summary_file(const std::string& text);

}  // namespace sheaf::train
