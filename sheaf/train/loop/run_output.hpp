#pragma once
// What a run writes while it trains: its folder, the journal, the routes of
// gradients, trace files.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "sheaf/train/log/journal.hpp"
#include "sheaf/train/loop/session.hpp"
#include "sheaf/train/loop/trainer.hpp"

namespace sheaf::train {

// All ranks must construct it together. The session must outlive it.
class RunOutput {
 public:
  // Opens the folder, in which nothing was written before. With a state that
  // has weights, the checkpoints of later steps are set aside. `trace` may be
  // null.
  RunOutput(const TrainingSession& session, const TrainOptions& options,
            const TrainState& state, TraceWriter* trace);

  // Starts the journal on rank 0. `next_step` is negative before pre-training.
  void open_journal(const TrainOptions& options, std::int64_t next_step);

  const std::filesystem::path& folder() const { return folder_; }
  CheckpointFolder& checkpoints() { return checkpoints_; }
  Journal* journal() { return journal_ ? &*journal_ : nullptr; }  // on rank 0

  // These have no effect without a journal.
  void say(const std::string& line);
  void tell(const BatchReport& report);
  void tell_plan();  // writes dad_plan.json if it has changed

 private:
  static std::filesystem::path open_folder(const TrainingSession& session,
                                           const TrainOptions& options,
                                           const TrainState& state);
  const TrainingStrategy& strategy() const;

  const TrainingSession& session_;
  std::filesystem::path folder_;
  CheckpointFolder checkpoints_;
  std::optional<Journal> journal_;
  std::string told_routes_;  // last routes.json, by parameter
  std::string told_plan_;    // last dad_plan.json
};

}  // namespace sheaf::train
