#include "sheaf/report/runs/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMaxRanks = 8;
constexpr std::size_t kMaxEvents = 2000;  // per page; the longest are kept
constexpr std::size_t kWarmUp = 3;        // steps

struct Event {
  int rank = 0;
  int thread = 0;
  double start_us = 0;
  double duration_us = 0;
  std::string name;
  std::string category;
  std::string details;

  double end_us() const { return start_us + duration_us; }
};

struct Trace {
  std::vector<Event> events;
  std::map<std::pair<int, int>, std::string> threads;  // by rank and thread
  double base_us = 0;  // origin of the clock, since 1970
};

std::string details_of(const json& event) {
  std::string text;
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return text;
  for (const auto& [key, value] : args->items())
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ", key,
        value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

// Such times can be added and compared.
double time_at(const JsonValue& event, const char* key) {
  constexpr double kLatestUs = 1e16;  // in the year 2286
  const auto found = event.find(key);
  const double us = found ? found->number() : 0;
  if (std::abs(us) > kLatestUs) found->fail("is too large for a time");
  return us;
}

void add(Trace& trace, const JsonValue& event) {
  const std::string phase = event.value("ph", "");
  const int rank = event.value("pid", 0);
  const int thread = event.value("tid", 0);
  if (phase == "M" && event.value("name", "") == "thread_name")
    trace.threads[{rank, thread}] = event.at("args").value("name", "");
  if (phase != "X") return;
  trace.events.push_back({.rank = rank,
                          .thread = thread,
                          .start_us = time_at(event, "ts"),
                          .duration_us = time_at(event, "dur"),
                          .name = event.value("name", ""),
                          .category = event.value("cat", ""),
                          .details = details_of(event.json())});
}

// Each JSON event is discarded after conversion, to save memory: a trace may
// have a million events.
Trace parse_trace(std::istream& in, const std::string& name) {
  const JsonSource source{name, "it is damaged; remove it to do without it"};
  Trace trace;
  constexpr int kEventDepth = 2;  // in the array in the object
  const auto take = [&](int depth, json::parse_event_t what, json& parsed) {
    if (static_cast<std::size_t>(depth) > kMaxJsonDepth)
      source.fail("its values are nested too deep");
    if (what != json::parse_event_t::object_end || depth != kEventDepth)
      return true;
    add(trace, JsonValue(parsed, source));
    return false;
  };
  try {
    const json rest = json::parse(in, take);
    const JsonValue root(rest, source);
    trace.base_us = root.value("baseTimeNanoseconds", 0.0) / 1000;
  } catch (const json::exception& error) {
    source.fail("invalid trace: " + printable(error.what()));
  }
  return trace;
}

Trace read_trace(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw IoError(concat("cannot open ", file.string()));
  return parse_trace(in, file.string());
}

// Appends the events of `other`, converted to the clock of `trace`. Ranks of a
// host share one clock; the origins in their files differ by a few
// microseconds.
void append(Trace& trace, Trace other) {
  constexpr double kSameHostUs = 1000;
  double shift = other.base_us - trace.base_us;
  if (std::abs(shift) < kSameHostUs) shift = 0;
  for (Event& event : other.events) {
    event.start_us += shift;
    trace.events.push_back(std::move(event));
  }
  trace.threads.merge(other.threads);
}

fs::path file_of(const fs::path& folder, int rank) {
  return folder / fmt::format("trace.rank{}.json", rank);
}

Trace read_all(const fs::path& folder) {
  Trace trace = read_trace(folder / "trace.json");
  for (int rank = 1; rank < kMaxRanks; ++rank)
    if (const fs::path file = file_of(folder, rank); fs::exists(file))
      append(trace, read_trace(file));
  return trace;
}

int count_left_out(const fs::path& folder) {
  int rank = kMaxRanks;
  while (fs::exists(file_of(folder, rank))) ++rank;
  return rank - kMaxRanks;
}

// The end times of the first rank's steps.
std::vector<double> ends_of_steps(const std::vector<Event>& events) {
  std::vector<double> ends;
  for (const Event& event : events)
    if (event.rank == events.front().rank && event.category == "train" &&
        event.name == "optimizer")
      ends.push_back(event.end_us());
  std::sort(ends.begin(), ends.end());
  return ends;
}

// The index i of the step with the median time, which lasts from ends[i] to
// ends[i + 1].
std::size_t median_step(const std::vector<double>& ends) {
  std::vector<std::size_t> steps;
  const std::size_t count = ends.size() - 1;
  for (std::size_t i = std::min(kWarmUp, count - 1); i < count; ++i)
    steps.push_back(i);
  const auto middle =
      steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), middle, steps.end(),
                   [&](std::size_t a, std::size_t b) {
                     return ends[a + 1] - ends[a] < ends[b + 1] - ends[b];
                   });
  return *middle;
}

std::string row_name(const Trace& trace, int rank, int thread) {
  const auto named = trace.threads.find({rank, thread});
  if (named != trace.threads.end())
    return fmt::format("rank {} {}", rank, named->second);
  return thread == 0 ? fmt::format("rank {}", rank)
                     : fmt::format("rank {} row {}", rank, thread);
}

void keep_longest(std::vector<Event>& events) {
  if (events.size() <= kMaxEvents) return;
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.duration_us > b.duration_us;
  });
  events.resize(kMaxEvents);
}

void fill(Timeline& timeline, const Trace& trace, double begin, double end) {
  std::vector<Event> inside;
  for (const Event& event : trace.events)
    if (event.start_us < end && event.end_us() > begin) inside.push_back(event);
  keep_longest(inside);
  std::map<std::pair<int, int>, int> rows;
  for (const Event& event : inside) rows[{event.rank, event.thread}] = 0;
  for (auto& [place, row] : rows) {
    row = static_cast<int>(timeline.rows.size());
    timeline.rows.push_back(row_name(trace, place.first, place.second));
  }
  for (const Event& event : inside) {
    const double from = std::max(event.start_us, begin);
    timeline.events.push_back(
        {.row = rows[{event.rank, event.thread}],
         .start_us = from - begin,
         .duration_us = std::min(event.end_us(), end) - from,
         .name = event.name,
         .category = event.category,
         .details = event.details});
  }
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const TimelineEvent& a, const TimelineEvent& b) {
                     return a.start_us < b.start_us;
                   });
  timeline.duration_us = end - begin;
}

Timeline timeline_of(const Trace& trace) {
  Timeline timeline;
  if (trace.events.empty()) return timeline;
  const std::vector<double> ends = ends_of_steps(trace.events);
  if (ends.size() < 2) return timeline;
  timeline.step = median_step(ends) + 1;
  timeline.steps = ends.size();
  fill(timeline, trace, ends[timeline.step - 1], ends[timeline.step]);
  return timeline;
}

}  // namespace

Timeline read_timeline(const fs::path& folder) {
  if (!fs::exists(folder / "trace.json")) return {};
  Timeline timeline = timeline_of(read_all(folder));
  if (!timeline.is_empty()) timeline.left_out = count_left_out(folder);
  return timeline;
}

Timeline parse_timeline(std::istream& trace, const std::string& file) {
  return timeline_of(parse_trace(trace, file));
}

}  // namespace sheaf::report
