#pragma once
// The critical path of a step: the chain of computations, kernels and
// collectives that each waited for the one before.

#include "sheaf/plan/graph/step_replay.hpp"

namespace sheaf::plan {

// The reason why a piece of work began when it did.
enum class Cause {
  kStep,         // start of the step
  kThread,       // its thread was busy
  kOtherThread,  // it depends on another thread
  kLaunch,       // its launch had to reach the device
  kStream,       // its stream was busy
  kOtherStream,  // it depends on a kernel of another stream
  kQueue,        // its launch waited for space in the launch queue
  kDevice,       // its thread waited for the streams
  kOtherRank,    // its collective waited for the last rank
};
// "earlier work of its thread", "its launch", …
const char* to_string(Cause cause);

// An interval of a step and the work it was spent on.
struct PathPiece {
  std::size_t rank = 0;
  std::size_t thread = 0;       // of the mark
  std::int32_t mark = kNone;    // kNone if it is a kernel
  std::int32_t kernel = kNone;  // kNone if it is a mark
  Cause cause = Cause::kStep;   // dependency on the previous piece
  bool is_step_before = false;  // work of the step before
  Span span;
};

// The pieces in order of time, without gaps, from the start to the end of the
// slowest rank's step. Backlog of the step before is identified with the same
// work of this step, one step earlier, so steps must be in steady state.
// `steps` and `times` are those of Replay::run_together(). Throws UsageError if
// their sizes differ.
std::vector<PathPiece> critical_path(const std::vector<const StepGraph*>& steps,
                                     const std::vector<ReplayTimes>& times);

}  // namespace sheaf::plan
