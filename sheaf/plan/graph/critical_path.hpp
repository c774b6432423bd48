#pragma once
// What decides a step's time: the chain of computing, kernels and collectives
// each of which waited for the one before it.

#include "sheaf/plan/graph/step_replay.hpp"

namespace sheaf::plan {

// Why something began when it did.
enum class Cause {
  kStep,         // the step began
  kThread,       // its thread had to do something else first
  kOtherThread,  // it went on after another thread
  kLaunch,       // its launch had to reach the device
  kStream,       // its stream had to do something else first
  kOtherStream,  // it waited for a kernel of another stream
  kQueue,        // its launch waited for one that made room in the queue
  kDevice,       // its thread waited for what streams had to do
  kOtherRank,    // its collective waited for the last rank to come
};
// "the thread before it", "its launch", …
const char* to_string(Cause cause);

// A piece of a step's time, and what it was spent on.
struct PathPiece {
  std::size_t rank = 0;
  std::size_t thread = 0;       // of a mark
  std::int32_t mark = kNone;    // or
  std::int32_t kernel = kNone;  // one of the two
  Cause cause = Cause::kStep;   // after the piece before it
  bool is_step_before = false;  // left from it; else of this step
  Span span;
};

// In the order of time, without gaps, from the begin to the end of the slowest
// rank's step. What the step before has left to do is taken for the same work
// of this step, a step earlier: so steps must be like the one before them.
// `steps` and `times` are those of Replay::run_together().
std::vector<PathPiece> critical_path(const std::vector<const StepGraph*>& steps,
                                     const std::vector<ReplayTimes>& times);

}  // namespace sheaf::plan
