#pragma once
// Writes trace events in Chrome's JSON format, which Perfetto opens. See
// docs/reference/trace.md for the schema. All traces of Sheaf are written by
// this module.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/table.hpp"

namespace sheaf {

// Microseconds of the host's steady clock, which is monotonic and shared by all
// ranks of a host. (Microseconds since 1970 would lose precision: a double of
// that magnitude has a resolution of a quarter of a microsecond.)
double trace_now_us() noexcept;

// An event of `duration_us` that began at `start_us`. The rank is the writer's.
struct TraceEvent {
  std::string name;      // operation: "all_reduce"
  std::string category;  // part of Sheaf: "comm"
  int thread = 0;        // row in the trace viewer
  double start_us = 0;   // from trace_now_us()
  double duration_us = 0;
  std::vector<std::pair<std::string, Cell>> args = {};
};

struct TraceOptions {
  int rank = 0;
  // Further events are counted but dropped, which bounds the memory (about
  // 200 bytes per event).
  std::size_t max_events = 1'000'000;
};

// Keeps events in memory until flush() or the destructor writes them. The file
// is replaced atomically, so it is valid JSON at any time. Thread-safe.
class TraceWriter {
 public:
  // Writes no file until open() is called.
  explicit TraceWriter(const TraceOptions& options);
  // Same, and calls open(path).
  explicit TraceWriter(const std::filesystem::path& path,
                       const TraceOptions& options = {});
  // Flushes; errors are logged.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Writes the file immediately, so that a wrong path throws IoError here.
  void open(const std::filesystem::path& path);
  void add(const TraceEvent& event);
  // Sets the title of the row with this thread number.
  void name_thread(int thread, const std::string& name);
  // Writes all events so far to the opened file, if any. Throws IoError, which
  // names the file.
  void flush();
  // Same, but does nothing if few events were added since the last time, so
  // that the total cost is proportional to the number of events: fewer than a
  // tenth of all, for files of more than 50,000.
  void flush_if_grown();

 private:
  void add_line(std::string line);
  void write(const std::filesystem::path& path);  // requires the mutex

  const TraceOptions options_;
  const std::int64_t base_time_ns_;
  std::mutex mutex_;
  std::filesystem::path path_;  // empty until open()
  std::vector<std::string> lines_;
  std::size_t dropped_events_ = 0;
  bool is_flushed_ = false;
  std::size_t flushed_lines_ = 0;
};

// Adds an event that lasts from the constructor to the destructor. Does nothing
// if the writer is null; otherwise the writer must outlive the span.
class TraceSpan {
 public:
  TraceSpan(TraceWriter* writer, std::string name, std::string category,
            int thread = 0);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  void add_arg(std::string key, Cell value);

 private:
  TraceWriter* writer_;
  TraceEvent event_;
};

}  // namespace sheaf
