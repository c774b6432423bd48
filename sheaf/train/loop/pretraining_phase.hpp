#pragma once
// Unsupervised pre-training, stage by stage, before the steps of the run.

#include "sheaf/train/loop/pretrainer.hpp"
#include "sheaf/train/loop/run_saver.hpp"
#include "sheaf/train/loop/stop_signal.hpp"

namespace sheaf::train {

// The steps of pre-training that remain.
std::int64_t pretraining_steps_left(const TrainingSession& session,
                                    const TrainState& state);

// The arguments must outlive the object. All ranks must use it together.
class PretrainingPhase {
 public:
  PretrainingPhase(const SavedRun& run, RunSaver& saver, const StopSignal& stop)
      : run_(run), saver_(saver), stop_(stop) {}

  // Trains all remaining stages. Returns false if a signal requested a stop;
  // the stage in progress is then discarded.
  bool run();

 private:
  bool train_stage();
  bool train_epoch(Pretrainer& pretrainer, PretrainingReport& report);
  bool train_batch(Pretrainer& pretrainer, const data::Batch& batch,
                   PretrainingReport& report);
  bool is_finite_here(const Pretrainer::Step& step) const;
  [[noreturn]] void stop(const PretrainingReport& report,
                         const NonFiniteCause& cause) const;

  SavedRun run_;
  RunSaver& saver_;
  const StopSignal& stop_;
};

}  // namespace sheaf::train
