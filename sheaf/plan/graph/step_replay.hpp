#pragma once
// Simulates steps, with a queue for each thread and each stream.

#include <deque>
#include <functional>
#include <vector>

#include "sheaf/plan/graph/step_graph.hpp"

namespace sheaf::plan {

struct ReplayOptions {
  // Number of kernels that may be queued before a launch waits, as in CUDA.
  std::size_t queue = 1022;
};

// Times of everything in a step, by a clock shared by all ranks.
struct ReplayTimes {
  Span step;                                     // on the step's own thread
  std::vector<std::vector<std::int64_t>> marks;  // end times, by thread
  // By kernel; a collective starts when this rank has reached it.
  std::vector<Span> kernels;
};

// Replays consecutive steps; work that streams have not done by the end of a
// step carries over to the next. Not thread-safe.
class Replay {
 public:
  explicit Replay(ReplayOptions options = {}) : options_(options) {}

  // Returns the duration of the step on its own thread.
  std::int64_t run(const StepGraph& step, ReplayTimes* times = nullptr);

  // Replays a step of several ranks: a collective begins when the last rank has
  // reached it and ends on all ranks `ns` later. Throws UsageError if the ranks
  // have different numbers of collectives.
  struct Together {
    std::vector<std::int64_t> step_ns;   // by rank
    std::vector<std::int64_t> waits_ns;  // waiting for others, by rank
  };
  using CollectiveNs = std::function<std::int64_t(std::size_t number)>;
  static Together run_together(std::vector<Replay>& ranks,
                               const std::vector<const StepGraph*>& steps,
                               const CollectiveNs& ns,
                               std::vector<ReplayTimes>* times = nullptr);

  // Time from the end of the last step until all streams are idle.
  std::int64_t backlog_ns() const;

 private:
  class Run;
  ReplayOptions options_;
  std::int64_t now_ns_ = 0;                 // clock of the step's own thread
  std::vector<std::int64_t> free_ns_;       // by stream
  std::deque<std::int64_t> unfinished_ns_;  // end times of kernels, sorted
};

}  // namespace sheaf::plan
