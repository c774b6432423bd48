#include "sheaf/base/trace.hpp"

#include <fmt/format.h>

#include <chrono>

#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

std::string quoted(const std::string& text) { return Cell(text).as_json(); }

// Formats microseconds with a resolution of one nanosecond.
std::string microseconds(double value) { return fmt::format("{:.3f}", value); }

std::string line_of(const TraceEvent& event, int rank) {
  std::string line = fmt::format(
      R"({{"name": {}, "cat": {}, "ph": "X", "pid": {}, "tid": {}, )"
      R"("ts": {}, "dur": {})",
      quoted(event.name), quoted(event.category), rank, event.thread,
      microseconds(event.start_us), microseconds(event.duration_us));
  for (std::size_t i = 0; i < event.args.size(); ++i)
    line += fmt::format("{}{}: {}", i == 0 ? ", \"args\": {" : ", ",
                        quoted(event.args[i].first),
                        event.args[i].second.as_json());
  return line + (event.args.empty() ? "}" : "}}");
}

std::string metadata_line(const char* what, int rank, int thread,
                          const std::string& name) {
  return fmt::format(R"({{"name": "{}", "ph": "M", "pid": {}, "tid": {}, )"
                     R"("args": {{"name": {}}}}})",
                     what, rank, thread, quoted(name));
}

// Unix time, in nanoseconds, at which trace_now_us() was 0.
std::int64_t base_time_ns() {
  const auto system = std::chrono::system_clock::now().time_since_epoch();
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(system - steady).count();
}

}  // namespace

double trace_now_us() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

TraceWriter::TraceWriter(const TraceOptions& options)
    : options_(options), base_time_ns_(base_time_ns()) {
  lines_.push_back(metadata_line("process_name", options_.rank, 0,
                                 fmt::format("rank {}", options_.rank)));
}

TraceWriter::TraceWriter(const std::filesystem::path& path,
                         const TraceOptions& options)
    : TraceWriter(options) {
  open(path);
}

TraceWriter::~TraceWriter() {
  try {
    if (!is_flushed_) flush();
  } catch (const std::exception& error) {
    log_error("trace lost: {}", error.what());
  }
}

void TraceWriter::open(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  write(path);
  path_ = path;
}

void TraceWriter::add(const TraceEvent& event) {
  add_line(line_of(event, options_.rank));
}

void TraceWriter::name_thread(int thread, const std::string& name) {
  add_line(metadata_line("thread_name", options_.rank, thread, name));
}

void TraceWriter::add_line(std::string line) {
  const std::lock_guard lock(mutex_);
  is_flushed_ = false;
  if (lines_.size() > options_.max_events)
    ++dropped_events_;
  else
    lines_.push_back(std::move(line));
}

void TraceWriter::flush() {
  const std::lock_guard lock(mutex_);
  if (!path_.empty()) write(path_);
}

void TraceWriter::flush_if_grown() {
  constexpr std::size_t kFewLines = 50'000;
  const std::lock_guard lock(mutex_);
  const std::size_t added = lines_.size() - flushed_lines_;
  if (path_.empty() || added == 0) return;
  if (lines_.size() <= kFewLines || added > lines_.size() / 10) write(path_);
}

void TraceWriter::write(const std::filesystem::path& path) {
  write_file_atomically(
      path, fmt::format(R"({{"displayTimeUnit": "ms", "baseTimeNanoseconds": {},
"otherData": {{"schema": "sheaf.trace.1", "rank": {}, "dropped_events": {}}},
"traceEvents": [
{}
]}}
)",
                        base_time_ns_, options_.rank, dropped_events_,
                        join(lines_, ",\n")));
  is_flushed_ = true;
  flushed_lines_ = lines_.size();
}

TraceSpan::TraceSpan(TraceWriter* writer, std::string name,
                     std::string category, int thread)
    : writer_(writer) {
  if (!writer_) return;
  event_.name = std::move(name);
  event_.category = std::move(category);
  event_.thread = thread;
  event_.start_us = trace_now_us();
}

TraceSpan::~TraceSpan() {
  if (!writer_) return;
  try {
    event_.duration_us = trace_now_us() - event_.start_us;
    writer_->add(event_);
  } catch (const std::exception& error) {
    log_error("trace event '{}' lost: {}", event_.name, error.what());
  }
}

void TraceSpan::add_arg(std::string key, Cell value) {
  if (writer_) event_.args.emplace_back(std::move(key), std::move(value));
}

}  // namespace sheaf
