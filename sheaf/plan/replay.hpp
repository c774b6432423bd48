#pragma once
// Lets the work of steps happen again: a queue for each thread and each
// stream.

#include <deque>
#include <vector>

#include "sheaf/plan/step_graph.hpp"

namespace sheaf::plan {

struct ReplayOptions {
  // Kernels that may be under way before a launch waits, as CUDA has it.
  std::size_t queue = 1022;
};

// Steps one after the other: what streams have not done by the end of a step
// is there in the next.
class Replay {
 public:
  explicit Replay(ReplayOptions options = {}) : options_(options) {}

  // The time from its begin to its end on the step's own thread.
  std::int64_t run(const StepGraph& step);
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
