#pragma once
// Options -dump_iter and -dbg_level: times of the all-reduces of a group, tier
// by tier, and which rank was late. See docs/reference/ddl_files.md for the
// output.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/choice/select.hpp"

namespace sheaf::comm {

// Times of one call on this rank.
struct CallTimes {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t waited_ns = 0;  // for the other ranks of the host to arrive
  PipelineTimes pipeline;

  std::int64_t elapsed_ns() const { return end_ns - start_ns; }
  std::int64_t busy_ns() const { return elapsed_ns() - waited_ns; }
};

class IterationStats : public Attachment {
 public:
  static constexpr Slot kSlot = Attachment::kIterationStats;
  explicit IterationStats(GroupCore& group);
  ~IterationStats() override;
  static IterationStats& of(GroupCore& group) {
    return group.attachments().get<IterationStats>(group);
  }

  // Number of all-reduces of the group so far. Each counts as an iteration.
  std::uint64_t calls() const { return calls_; }
  void count_call() { ++calls_; }
  // Sequence number of the last all-reduce among all operations of the group.
  std::uint32_t sequence() const { return sequence_; }
  void set_sequence(std::uint32_t sequence) { sequence_ = sequence; }

  // Whether note() must be called after each all-reduce.
  bool is_on() const { return is_on_; }
  // Records a completed call, from within the group's job. Every `dump_iter`
  // calls the ranks exchange their times, and rank 0 writes the report.
  void note(const Choice& choice, DType dtype, std::size_t bytes,
            const CallTimes& times);

 private:
  struct Line;

  Line& line_of(const Choice& choice);
  void debug(const std::string& text, DType dtype, std::size_t bytes,
             const CallTimes& times);
  void trace(const Line& line, std::size_t bytes, const CallTimes& times);
  void flush_trace();
  void report();

  GroupCore& group_;
  const int dump_iter_;
  const int dbg_level_;
  const bool is_on_;
  std::uint64_t calls_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint64_t noted_ = 0;  // since the last report
  std::uint64_t first_call_ = 0;
  std::vector<Line> lines_;  // since the last report; the same on all ranks
  std::set<std::pair<int, std::string>> seen_;  // size classes and choices
  std::shared_ptr<TraceWriter> trace_;
  std::uint64_t traced_ = 0;
  std::uint64_t flushed_ = 0;
};

}  // namespace sheaf::comm
