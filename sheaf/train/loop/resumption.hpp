#pragma once
// Resuming a run: what is loaded and checked before anything is written.

#include <filesystem>
#include <string>
#include <vector>

#include "sheaf/train/files/run_folder.hpp"
#include "sheaf/train/loop/session.hpp"
#include "sheaf/train/loop/trainer.hpp"

namespace sheaf::train {

struct ResumedRun {
  TrainState state;             // initial if there is no checkpoint
  bool has_finished = false;    // nothing remains to be done
  RunFolder folder;             // on rank 0, locked
  std::filesystem::path place;  // of the folder, on all ranks if it finished
  std::vector<ConfigChange> changes;  // on rank 0, since the run started
};

// Locks the config's folder and loads the latest checkpoint of the run in it.
// Throws UsageError, on rank 0, if another run is using the folder or if the
// run was started with other settings, data or another network, and IoError if
// the folder is read-only and the run has not finished; the other ranks then
// throw FailedOnRoot. Loads the weights into rank 0's module. Call it before
// session.start(), on all ranks.
ResumedRun resume(TrainingSession& session, const TrainOptions& options);

// The lines that report to the user what is resumed.
std::vector<std::string> describe(const ResumedRun& run);

}  // namespace sheaf::train
