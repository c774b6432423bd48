#pragma once
// What a run writes: its folder, the journal, the routes of gradients, trace
// files, and at its end summary.json.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "sheaf/train/files/run_folder.hpp"
#include "sheaf/train/log/journal.hpp"
#include "sheaf/train/loop/session.hpp"
#include "sheaf/train/loop/trainer.hpp"

namespace sheaf::train {

// All ranks must construct it together. The session must outlive it.
class RunOutput {
 public:
  // On rank 0 `folder` is that of the resumed run; for a new run it is empty
  // and is created. With a state that has weights, the checkpoints of later
  // steps are set aside. `trace` may be null.
  RunOutput(const TrainingSession& session, const TrainOptions& options,
            const TrainState& state, RunFolder& folder, TraceWriter* trace);

  // Starts the journal on rank 0. `next_step` is negative before pre-training.
  void open_journal(const TrainOptions& options, std::int64_t next_step);

  const std::filesystem::path& folder() const { return folder_; }
  CheckpointFolder& checkpoints() { return checkpoints_; }
  Journal* journal() { return journal_ ? &*journal_ : nullptr; }  // on rank 0

  // These have no effect without a journal.
  void print(const std::string& line);
  void report(const BatchReport& report);
  void save_routes();  // writes dad_plan.json if it has changed
  // Waits until log.jsonl and the TensorBoard file are on disk.
  void sync();

 private:
  static std::filesystem::path open_folder(const TrainingSession& session,
                                           const TrainOptions& options,
                                           const TrainState& state,
                                           RunFolder& folder);
  const TrainingStrategy& strategy() const;

  const TrainingSession& session_;
  std::filesystem::path folder_;
  CheckpointFolder checkpoints_;
  std::optional<Journal> journal_;
  std::string saved_routes_;  // last routes.json, by parameter
  std::string saved_plan_;    // last dad_plan.json
};

// Cumulative step times of a run.
StepTimes times_so_far(const RunTotals& totals);

// Writes summary.json, the result of the run. Call it on one rank only.
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
