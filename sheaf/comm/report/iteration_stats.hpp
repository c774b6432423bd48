#pragma once
// -dump_iter and -dbg_level: how long the all-reduces of a group took, tier by
// tier, and who was late. docs/ddl.md describes what is printed and written.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/choice/choice_tiers.hpp"

namespace sheaf::comm {

// One call, as this rank saw it.
struct CallTimes {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t waited_ns = 0;  // for the other ranks of the host to come
  PipelineTimes pipeline;

  std::int64_t elapsed_ns() const { return end_ns - start_ns; }
  std::int64_t busy_ns() const { return elapsed_ns() - waited_ns; }
};

class IterationStats : public GroupAttachment {
 public:
  static constexpr Slot kSlot = GroupAttachment::kIterationStats;
  explicit IterationStats(GroupCore& group);
  ~IterationStats() override;
  static IterationStats& of(GroupCore& group) {
    return group.attachments().get<IterationStats>(group);
  }

  // All-reduces of the group so far: what is called an iteration.
  std::uint64_t calls() const { return calls_; }
  void count_call() { ++calls_; }
  // The last one's number among all operations of the group.
  std::uint32_t sequence() const { return sequence_; }
  void set_sequence(std::uint32_t sequence) { sequence_ = sequence; }

  // Whether note() wants to be called, with times.
  bool is_on() const { return is_on_; }
  // The end of a call, within the group's job. Every `dump_iter` calls the
  // ranks tell each other their times.
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
