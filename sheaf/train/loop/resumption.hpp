#pragma once
// Resuming a run: what is loaded and checked before anything is written.

#include <filesystem>
#include <string>
#include <vector>

#include "sheaf/train/loop/session.hpp"
#include "sheaf/train/loop/trainer.hpp"

namespace sheaf::train {

struct ResumedRun {
  TrainState state;                   // initial if there is no checkpoint
  bool has_finished = false;          // nothing remains to be done
  std::filesystem::path folder;       // on rank 0; on all ranks if it finished
  std::vector<ConfigChange> changes;  // on rank 0, since the run started
};

// Loads the latest checkpoint of the run in the config's folder. Throws
// UsageError, on rank 0, if the run was started with other settings, data or
// another network; the other ranks then throw FailedOnRoot. Loads the weights
// into rank 0's module. Call it before session.start(), on all ranks.
ResumedRun resume(TrainingSession& session, const TrainOptions& options);

// The lines that report to the user what is resumed.
std::vector<std::string> describe(const ResumedRun& run);

}  // namespace sheaf::train
