#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/tensor/record/kineto.hpp"
#include "sheaf/tensor/record/trace_text.hpp"

namespace sheaf::tensor {
namespace {

constexpr std::string_view kStep = "ProfilerStep#";

// The first quoted string at or after `from`, without the quotes.
std::string quoted_after(const std::string& text, std::size_t from) {
  const std::size_t begin = text.find('"', from);
  if (begin == text.npos) return "";
  const std::size_t end = text.find('"', begin + 1);
  return end == text.npos ? "" : text.substr(begin + 1, end - begin - 1);
}

// Parses a decimal number of microseconds. A double cannot represent times
// since 1970 to the nanosecond.
std::int64_t nanoseconds_at(const std::string& text, std::size_t from) {
  constexpr long long kLargest = 4'000'000'000'000'000;  // in the year 2096
  char* end = nullptr;
  const long long whole = std::clamp(
      std::strtoll(text.c_str() + from, &end, 10), -kLargest, kLargest);
  std::int64_t fraction = 0;
  std::int64_t unit = 100;
  if (*end == '.')
    for (++end; *end >= '0' && *end <= '9'; ++end, unit /= 10)
      fraction += (*end - '0') * unit;
  return whole * 1000 + fraction;
}

}  // namespace

KinetoTrace::KinetoTrace(const std::filesystem::path& file)
    : file_(file), text_(read_file(file)) {
  const std::size_t list = text_.find("\"traceEvents\"");
  events_ = list == text_.npos ? text_.npos : text_.find('[', list);
  end_ = text_.rfind('}');
  if (events_ == text_.npos || end_ == text_.npos || end_ < events_)
    fail("the list traceEvents is missing");
  ++events_;
}

void KinetoTrace::fail(const std::string& what) const {
  throw IoError(
      concat(file_.string(), " (written by libtorch's profiler): ", what));
}

std::string KinetoTrace::device_name() const {
  const std::size_t list = text_.find("\"deviceProperties\"");
  if (list == text_.npos || list > events_) return "";
  const std::size_t name = text_.find("\"name\"", list);
  if (name == text_.npos || name > events_) return "";
  return quoted_after(text_, text_.find(':', name));
}

// The start of the scope on its thread; GPU streams have copies of the event
// with the same name.
std::int64_t KinetoTrace::begin_ns(const std::string& scope) const {
  const std::string name = concat("\"", scope, "\"");
  for (std::size_t at = text_.find(name, events_); at != text_.npos;
       at = text_.find(name, at + 1)) {
    const std::size_t begin = text_.rfind('{', at);
    const std::size_t time = text_.find("\"ts\":", at);
    const std::string before = text_.substr(begin, at - begin);
    if (before.find("\"user_annotation\"") == before.npos || time == text_.npos)
      continue;
    return nanoseconds_at(text_, time + 5);
  }
  fail(concat("scope ", scope, " not found"));
}

std::int64_t KinetoTrace::shift_ns(const Recorder& recorder) const {
  for (const RecordedThread* thread : recorder.threads())
    for (const RecordedEvent& event : thread->events) {
      const std::string& name = thread->names[event.name];
      if (name.starts_with(kStep)) return begin_ns(name) - event.begin_ns;
    }
  return 0;
}

void KinetoTrace::write(const std::filesystem::path& path,
                        const Recorder& recorder, int rank, int ranks,
                        std::string_view sheaf) const {
  const std::string_view text = text_;
  const std::size_t head = text.find('{') + 1;
  TextFile file(path);
  file.write(text.substr(0, head));
  if (text.substr(0, events_).find("\"distributedInfo\"") == text.npos)
    file.write(fmt::format(R"("distributedInfo": {{"backend": "sheaf", )"
                           R"("rank": {}, "world_size": {}}},)",
                           rank, ranks));
  file.write(text.substr(head, events_ - head));
  const bool is_empty =
      text.find_first_not_of(" \n\r\t", events_) == text.find(']', events_);
  const std::size_t written = write_events(
      file, recorder, {.has_operators = false, .shift_ns = shift_ns(recorder)});
  if (written > 0 && !is_empty) file.write(",");
  file.write(text.substr(events_, end_ - events_));
  file.write(concat(",\n\"sheaf\": ", sheaf, "}\n"));
  file.finish();
}

}  // namespace sheaf::tensor
