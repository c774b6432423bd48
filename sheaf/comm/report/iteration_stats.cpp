#include "sheaf/comm/report/iteration_stats.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/group/messages.hpp"
#include "sheaf/comm/report/iteration_report.hpp"

namespace sheaf::comm {
namespace {

// Maximum number of algorithms listed in a report; all others share one line.
constexpr std::size_t kMaxLines = 32;
constexpr int kRowsPerGroup = 8;  // trace rows: the calls, then the tiers

std::filesystem::path in_dump_folder(const std::string& name) {
  const char* folder = std::getenv("SHEAF_DUMP_DIR");
  return std::filesystem::path(folder ? folder : ".") / name;
}

// Each rank has one trace file, shared by all its groups.
std::shared_ptr<TraceWriter> trace_of(int rank) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<TraceWriter>> open;
  const auto path = in_dump_folder(concat("sheaf.trace.", rank, ".json"));
  const std::lock_guard lock(mutex);
  auto& known = open[path.string()];
  auto writer = known.lock();
  if (writer) return writer;
  try {
    writer = std::make_shared<TraceWriter>(path, TraceOptions{.rank = rank});
  } catch (const IoError& error) {
    log_warn("cannot trace the collectives: {}", error.what());
  }
  known = writer;
  return writer;
}

void append_line(const std::string& line) {
  const auto path = in_dump_folder("sheaf.report.jsonl");
  std::ofstream file(path, std::ios::app);
  file << line << std::endl;
  if (!file) log_warn("cannot write {}", path.string());
}

double to_us(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

}  // namespace

struct IterationStats::Line {
  ReportLine shape;
  LineTimes mine;
};

IterationStats::IterationStats(GroupCore& group)
    : group_(group),
      dump_iter_(group.runtime().options().dump_iter),
      dbg_level_(group.runtime().options().dbg_level),
      is_on_(dump_iter_ > 0 || dbg_level_ > 0) {
  if (dbg_level_ == 0) return;
  // A debug level implies that its messages are shown.
  if (log_level() > LogLevel::kInfo) set_log_level(LogLevel::kInfo);
  if (group.rank() == 0)
    log_info("group {}: {} ranks on {} hosts, {}", group.id(), group.size(),
             group.host_map().host_count(),
             topo::text_of(group.runtime().options()));
}

IterationStats::~IterationStats() = default;

IterationStats::Line& IterationStats::line_of(const Choice& choice) {
  std::string text = text_of(choice, group_.host_map());
  const auto found = std::find_if(
      lines_.begin(), lines_.end(),
      [&](const Line& line) { return line.shape.algorithm == text; });
  if (found != lines_.end()) return *found;
  if (lines_.size() > kMaxLines) return lines_.back();
  Line& line = lines_.emplace_back();
  if (lines_.size() > kMaxLines) {
    line.shape.algorithm = "others";
    return line;
  }
  line.shape.algorithm = std::move(text);
  line.shape.tiers =
      tiers_of(choice, group_.host_map(), group_.runtime().machine());
  return line;
}

void IterationStats::note(const Choice& choice, DType dtype, std::size_t bytes,
                          const CallTimes& times) {
  if (dbg_level_ > 0)
    debug(text_of(choice, group_.host_map()), dtype, bytes, times);
  if (dump_iter_ == 0) return;
  if (noted_ == 0) first_call_ = calls_;
  Line& line = line_of(choice);
  ++line.shape.calls;
  line.shape.bytes += bytes;
  line.mine.elapsed_ns += times.elapsed_ns();
  line.mine.waited_ns += times.waited_ns;
  // A small message is reduced without a pipeline.
  line.mine.local_ns += choice.path == DataPath::kSmall
                            ? times.busy_ns()
                            : times.pipeline.local_ns;
  for (std::size_t i = 0; i < topo::kMaxDims; ++i)
    line.mine.tier_ns[i] += times.pipeline.tiers[i].busy_ns;
  trace(line, bytes, times);
  if (++noted_ == static_cast<std::uint64_t>(dump_iter_)) report();
}

void IterationStats::debug(const std::string& text, DType dtype,
                           std::size_t bytes, const CallTimes& times) {
  if (dbg_level_ > 1)
    log_info(
        "group {}: all-reduce {} of {} {}, {}: {:.1f} us, {:.1f} us of it "
        "waiting",
        group_.id(), calls_, format_bytes(bytes), name_of(dtype), text,
        to_us(times.elapsed_ns()), to_us(times.waited_ns));
  const int size_class = std::bit_width(bytes);
  if (group_.rank() == 0 && seen_.emplace(size_class, text).second)
    log_info("group {}: all-reduces of about {} use {}", group_.id(),
             format_bytes(bytes), text);
}

void IterationStats::trace(const Line& line, std::size_t bytes,
                           const CallTimes& times) {
  const int row = group_.id() * kRowsPerGroup;
  if (!trace_) {
    trace_ = trace_of(group_.runtime().rank());
    if (!trace_) return;
    trace_->name_thread(row, concat("group ", group_.id()));
  }
  trace_->add({.name = "all_reduce",
               .category = "comm",
               .thread = row,
               .start_us = to_us(times.start_ns),
               .duration_us = to_us(times.elapsed_ns()),
               .args = {{"bytes", bytes},
                        {"algorithm", line.shape.algorithm},
                        {"call", calls_},
                        {"waited_us", to_us(times.waited_ns)},
                        {"local_us", to_us(times.pipeline.local_ns)}}});
  for (const ChosenTier& tier : line.shape.tiers) {
    if (tier.outer == kHostTier) continue;
    const TierTime& time =
        times.pipeline.tiers[static_cast<std::size_t>(tier.outer)];
    if (time.busy_ns == 0) continue;
    trace_->add({.name = tier.algorithm,
                 .category = "comm",
                 .thread = row + 1 + tier.outer,
                 .start_us = to_us(time.first_ns),
                 .duration_us = to_us(time.last_ns - time.first_ns),
                 .args = {{"tier", tier.name},
                          {"size", tier.size},
                          {"busy_us", to_us(time.busy_ns)}}});
  }
  ++traced_;
}

// Each flush rewrites the whole file, so flushes become rarer as it grows.
void IterationStats::flush_trace() {
  if (!trace_ || traced_ < 2 * flushed_) return;
  try {
    trace_->flush();
  } catch (const IoError& error) {
    log_warn("the trace of the collectives is not up to date: {}",
             error.what());
  }
  flushed_ = traced_;
}

void IterationStats::report() {
  std::vector<LineTimes> mine;
  for (const Line& line : lines_) mine.push_back(line.mine);
  const auto all = all_gather_small(group_, "dump_iter", mine);
  const topo::Machine& machine = group_.runtime().machine();
  Report report{
      .group = group_.id(),
      .hosts = group_.host_map().host_count(),
      .first_call = first_call_,
      .last_call = calls_,
      .machine = machine.name,
      .bound_us_per_byte = bound_us_per_byte(group_.host_map(), machine),
      .lines = {}};
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    for (const auto& rank : all) lines_[i].shape.ranks.push_back(rank[i]);
    report.lines.push_back(std::move(lines_[i].shape));
  }
  lines_.clear();
  noted_ = 0;
  flush_trace();
  if (group_.rank() != 0) return;
  std::cerr << table_of(report) << std::flush;
  append_line(json_of(report));
}

}  // namespace sheaf::comm
