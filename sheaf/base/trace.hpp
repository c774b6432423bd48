#pragma once
// Trace events in Chrome's JSON format, which Perfetto opens. docs/trace.md
// describes the schema; every part of Sheaf that traces writes through this.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/table.hpp"

namespace sheaf {

// Microseconds of the host's steady clock: it never goes back, and the ranks of
// a host agree on it. (Since 1970 would cost precision: a double of that size
// has steps of a quarter of a microsecond.)
double trace_now_us() noexcept;

// Something that took from `start_us` for `duration_us`. The rank is the
// writer's.
struct TraceEvent {
  std::string name;      // what: "all_reduce"
  std::string category;  // which part of Sheaf: "comm"
  int thread = 0;        // a row of the picture
  double start_us = 0;   // by trace_now_us()
  double duration_us = 0;
  std::vector<std::pair<std::string, Cell>> args = {};
};

struct TraceOptions {
  int rank = 0;
  // Later events are counted but not kept, so memory stays bounded (about
  // 200 bytes each).
  std::size_t max_events = 1'000'000;
};

// Keeps events in memory. The file is complete JSON whenever it exists: flush()
// and the destructor write it under another name and rename it. Any thread may
// call any function.
class TraceWriter {
 public:
  // Writes no file before open().
  explicit TraceWriter(const TraceOptions& options);
  // The same, opened.
  explicit TraceWriter(const std::filesystem::path& path,
                       const TraceOptions& options = {});
  // Flushes; an error is logged.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Writes the file at once, so a wrong path is an IoError here.
  void open(const std::filesystem::path& path);
  void add(const TraceEvent& event);
  // The heading of the rows with this thread number.
  void name_thread(int thread, const std::string& name);
  // Writes all events so far, to the file that was opened; IoError names it.
  void flush();

 private:
  void add_line(std::string line);
  void write(const std::filesystem::path& path);  // under the mutex

  const TraceOptions options_;
  const std::int64_t base_time_ns_;
  std::mutex mutex_;
  std::filesystem::path path_;  // empty: not opened
  std::vector<std::string> lines_;
  std::size_t dropped_events_ = 0;
  bool is_flushed_ = false;
};

// Adds an event that begins with the constructor and ends with the destructor.
// A null writer makes it do nothing.
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
