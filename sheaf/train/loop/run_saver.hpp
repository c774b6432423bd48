#pragma once
// Saves the checkpoints of a run, with its duration.

#include "sheaf/base/stopwatch.hpp"
#include "sheaf/train/loop/non_finite_guard.hpp"
#include "sheaf/train/loop/run_output.hpp"

namespace sheaf::train {

// The duration of a run and of its current epoch, over all resumptions.
// Starts when it is constructed.
class RunClock {
 public:
  // `seconds`: of the run before this process.
  void resume_at(double seconds) { seconds_before_ = seconds; }
  // `seconds`: of the epoch before this process.
  void begin_epoch(double seconds) {
    epoch_watch_ = Stopwatch();
    epoch_seconds_before_ = seconds;
  }

  double seconds() const { return seconds_before_ + run_watch_.ms() / 1000; }
  double epoch_seconds() const {
    return epoch_seconds_before_ + epoch_watch_.ms() / 1000;
  }

 private:
  Stopwatch run_watch_;
  Stopwatch epoch_watch_;
  double seconds_before_ = 0;
  double epoch_seconds_before_ = 0;
};

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
  // weights are not finite, and an IoError that names the last complete
  // checkpoint if this one cannot be saved. All ranks must call it.
  void save(const Metrics* metrics);

 private:
  void write();
  std::string last_complete();
  void complete_state(const Metrics* metrics);
  bool writes_shards() const;  // each rank writes a shard

  SavedRun run_;
};

}  // namespace sheaf::train
