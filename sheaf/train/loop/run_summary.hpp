#pragma once
// summary.json of a run folder: the result of a run.

#include <filesystem>
#include <optional>

#include "sheaf/train/loop/session.hpp"
#include "sheaf/train/loop/trainer.hpp"

namespace sheaf::train {

// Cumulative step times of a run.
StepTimes times_so_far(const RunTotals& totals);

// Call it on one rank only.
void write_summary(const TrainingSession& session, const TrainState& state,
                   const RunResult& result);

// Whether the summary in the folder records the end of the run with this state,
// so that nothing remains to be done.
bool has_finished(const std::filesystem::path& folder, const RunConfig& config,
                  const TrainState& state);

// The result of a run that has_finished(), from its summary, without weights
// and skipped steps. Rank 0 reads it; all ranks must call it.
RunResult read_summary(const comm::Group& group,
                       const std::filesystem::path& folder);

}  // namespace sheaf::train
