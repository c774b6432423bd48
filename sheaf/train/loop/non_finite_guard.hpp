#pragma once
// Ends a run whose loss, gradients or weights are not finite (on_non_finite).
//
// Ranks agree on such a step through the sums that they all-reduce in each
// step, before the weights change. To stop the run, all ranks repeat the step's
// passes to find the cause.

#include <string>

#include "sheaf/train/loop/session.hpp"

namespace sheaf::train {

// All arguments must outlive the object. All ranks must call its functions.
class NonFiniteGuard {
 public:
  NonFiniteGuard(TrainingSession& session, TrainState& state,
                 const CheckpointFolder& checkpoints)
      : session_(session), state_(state), checkpoints_(checkpoints) {}

  // For a step that was not applied: counts it as skipped or throws
  // NonFiniteError, according to the config.
  void refuse_step(const data::Batch& batch);
  // Throws NonFiniteError on rank 0 and FailedOnRoot on the others. `what` must
  // be the same on all ranks; `mine` is the cause found on this rank.
  [[noreturn]] void stop(const std::string& what,
                         const NonFiniteCause& mine) const;
  // Stops if a rank's weights are not finite, unless the config ignores it.
  void check_weights() const;

 private:
  NonFiniteCause find_cause(const data::Batch& batch);

  TrainingSession& session_;
  TrainState& state_;
  const CheckpointFolder& checkpoints_;
};

}  // namespace sheaf::train
