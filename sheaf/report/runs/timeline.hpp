#pragma once
// One step of a run out of its trace files, see docs/trace.md.

#include <filesystem>
#include <string>
#include <vector>

namespace sheaf::report {

struct TimelineEvent {
  int row = 0;          // of Timeline::rows
  double start_us = 0;  // since the begin of the step
  double duration_us = 0;
  std::string name;
  std::string category;
  std::string details;  // the arguments as text, or ""
};

struct Timeline {
  std::vector<std::string> rows;  // "rank 0 train", "rank 0 groups", ...
  std::vector<TimelineEvent> events;
  double duration_us = 0;
  std::size_t step = 0;   // the how-manieth of the trace, from 0
  std::size_t steps = 0;  // of the trace

  bool is_empty() const { return events.empty(); }
};

// trace.json and trace.rank<n>.json of the folder, with clocks of several
// hosts brought together. A step lasts from the end of one optimizer event of
// rank 0 to the end of the next; the one whose time is the median is taken,
// the first few apart. Empty without trace.json or without such events.
Timeline read_timeline(const std::filesystem::path& folder);

}  // namespace sheaf::report
