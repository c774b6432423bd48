#pragma once
// Saves the checkpoints of a run.

#include "sheaf/train/loop/non_finite_guard.hpp"
#include "sheaf/train/loop/run_clock.hpp"
#include "sheaf/train/loop/run_output.hpp"

namespace sheaf::train {

// The objects of the run that a checkpoint is made from. They must outlive the
// saver.
struct SavedRun {
  TrainingSession& session;
  TrainState& state;
  const RunClock& clock;
  RunOutput& output;
  const NonFiniteGuard& guard;
  TraceWriter* trace = nullptr;
};

class RunSaver {
 public:
  explicit RunSaver(const SavedRun& run) : run_(run) {}

  // Completes the state and saves it. `metrics` are those of the epoch so far;
  // null between epochs. Throws NonFiniteError, like NonFiniteGuard, if the
  // weights are not finite. All ranks must call it.
  void save(const Metrics* metrics);

 private:
  void complete_state(const Metrics* metrics);
  bool writes_shards() const;  // each rank writes a shard

  SavedRun run_;
};

}  // namespace sheaf::train
