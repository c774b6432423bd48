#pragma once
// Extracts one step of a run from its trace files, see docs/reference/trace.md.

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace sheaf::report {

struct TimelineEvent {
  int row = 0;          // index into Timeline::rows
  double start_us = 0;  // since the beginning of the step
  double duration_us = 0;
  std::string name;
  std::string category;
  std::string details;  // the arguments as text, or ""
};

struct Timeline {
  std::vector<std::string> rows;  // "rank 0 train", "rank 0 groups", ...
  std::vector<TimelineEvent> events;
  double duration_us = 0;
  std::size_t step = 0;   // index of the step in the trace, from 0
  std::size_t steps = 0;  // number of steps in the trace
  int left_out = 0;       // ranks whose traces were not read

  bool is_empty() const { return events.empty(); }
};

// Reads trace.json and trace.rank<n>.json of the folder, of the first 8 ranks,
// and aligns the clocks of several hosts. A step lasts from the end of one
// optimizer event of rank 0 to the end of the next. The result is the step with
// the median time, ignoring the first few; it is empty without trace.json or
// without such events.
// Throws IoError with the name of a file that is damaged.
Timeline read_timeline(const std::filesystem::path& folder);
// Same, for the trace of rank 0 alone.
Timeline parse_timeline(std::istream& trace, const std::string& file);

}  // namespace sheaf::report
