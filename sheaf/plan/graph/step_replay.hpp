#pragma once
// Lets the work of steps happen again: a queue for each thread and each
// stream.

#include <deque>
#include <functional>
#include <vector>

#include "sheaf/plan/graph/step_graph.hpp"

namespace sheaf::plan {

struct ReplayOptions {
  // Kernels that may be under way before a launch waits, as CUDA has it.
  std::size_t queue = 1022;
};

// When everything in a step happened, by a clock that all ranks share.
struct ReplayTimes {
  Span step;                                     // on the step's own thread
  std::vector<std::vector<std::int64_t>> marks;  // their ends, by thread
  // Of a collective from when this rank has come to it.
  std::vector<Span> kernels;
};

// Steps one after the other: what streams have not done by the end of a step
// is there in the next.
class Replay {
 public:
  explicit Replay(ReplayOptions options = {}) : options_(options) {}

  // The time from its begin to its end on the step's own thread.
  std::int64_t run(const StepGraph& step, ReplayTimes* times = nullptr);

  // A step of many ranks at once: collectives begin when the last rank has
  // come to them, and end everywhere `ns` later. UsageError when they do not
  // all have as many collectives.
  struct Together {
    std::vector<std::int64_t> step_ns;   // by rank
    std::vector<std::int64_t> waits_ns;  // for others, by rank
  };
  using CollectiveNs = std::function<std::int64_t(std::size_t number)>;
  static Together run_together(std::vector<Replay>& ranks,
                               const std::vector<const StepGraph*>& steps,
                               const CollectiveNs& ns,
                               std::vector<ReplayTimes>* times = nullptr);

  // When the streams will have done everything, from the last step's end.
  std::int64_t backlog_ns() const;

 private:
  class Run;
  ReplayOptions options_;
  std::int64_t now_ns_ = 0;                 // of the step's own thread
  std::vector<std::int64_t> free_ns_;       // by stream
  std::deque<std::int64_t> unfinished_ns_;  // ends of kernels, in order
};

}  // namespace sheaf::plan
