#pragma once
// The state of a run and the folder that stores it.
//
// checkpoints/step-0000000123/ holds weights.pt and optimizer.pt (dictionaries
// of tensors that Python's torch.load can read) and state.json (everything
// else, and the checksums of all files). If all ranks write a checkpoint, each
// writes its own files, such as weights-00002-of-00004.pt, with a share of the
// tensors: a shard. Any number of ranks can read any number of shards. The
// folder is written under another name, synchronized and renamed, so it is
// complete if it exists. The links `latest` and `best` point to two of the
// checkpoints, for convenience: the authoritative record of the best one is
// state.json of the newest.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/log/metrics.hpp"
#include "sheaf/train/log/step_times.hpp"
#include "sheaf/train/setup/optimizer.hpp"

namespace sheaf::train {

// Cumulative totals of a run over all resumptions. Work done after the
// checkpoint that a run was resumed from does not count.
struct RunTotals {
  double seconds = 0;
  std::int64_t epochs = 0;         // completed epochs
  double epoch_seconds = 0;        // their duration, including validation
  double open_epoch_seconds = 0;   // duration of the current epoch so far
  StepTimes times;                 // over the steps of completed epochs
  StepTimes open_times;            // over the steps of the current epoch
  std::int64_t skipped_steps = 0;  // skipped as non-finite
  std::int64_t open_skipped = 0;   // of those, in the current epoch
  MetricValues train;              // of the last completed epoch
  MetricValues validation;         // without rows: no validation
};

// Everything needed to resume a run. Random numbers are a function of seed,
// step and rank and need no saved state.
struct TrainState {
  std::int64_t step = 0;   // completed optimizer steps
  std::int64_t epoch = 0;  // epoch to continue with
  std::int64_t batch = 0;  // its completed global batches
  std::int64_t pretrained_stages = 0;
  std::int64_t seed = 0;
  std::int64_t global_batch = 0;
  std::int64_t examples = 0;             // size of the training set; 0: unknown
  std::vector<std::string> class_names;  // by label; empty: unknown
  double best = std::numeric_limits<double>::quiet_NaN();  // best value
  std::int64_t best_step = -1;  // checkpoint with the best value; -1: none
  std::string best_metric;      // metric of `best`; empty: unknown
  std::int64_t epochs_since_best = 0;
  bool has_stopped_early = false;
  RunTotals totals;
  std::vector<double> metric_sums;  // of the current epoch; see Metrics
  NamedTensors weights;             // parameters and buffers
  NamedTensors optimizer;
  NamedTensors exchange;  // state of the exchange; see Strategy
};

struct CheckpointFile;  // checkpoint_state.hpp

// The checkpoints of one run. Not thread-safe.
class CheckpointFolder {
 public:
  // Keeps the newest `keep` checkpoints and that of the state's best_step.
  CheckpointFolder(std::filesystem::path folder, int keep);

  // Saves a checkpoint; call it on one rank only. On failure throws an IoError
  // that names the file; earlier checkpoints stay valid.
  void save(const TrainState& state);
  // Saves a checkpoint from all ranks of the group, each writing its share of
  // the tensors to its own files; all other state is taken from rank 0. All
  // ranks must call it and must see the same folder, else IoError. If one rank
  // fails, all throw, as with from_root().
  void save_shards(const comm::Group& group, const TrainState& share);

  // Loads the newest valid checkpoint; nullopt if there is none. Corrupt
  // checkpoints are logged and skipped; throws IoError if none is valid.
  std::optional<TrainState> load_latest() const;
  // Loads the checkpoint of one step; throws like load().
  TrainState load_step(std::int64_t step) const;

  // Renames the checkpoints of later steps, which load_latest() skipped, to
  // "bad-step-...".
  void set_aside_after(std::int64_t step);
  // Makes the links point to the checkpoints of the state's step and best_step;
  // removes the link `best` if that checkpoint does not exist. Folders in place
  // of the links that are copies of checkpoints (left by tools that follow
  // links) are removed; throws an IoError that names anything else.
  void repair_links(const TrainState& state);

  // Names of all checkpoints, oldest first: "step-0000000123".
  std::vector<std::string> names() const;
  // Throws an IoError that names the missing, truncated or corrupt file.
  TrainState load(const std::string& name) const;

 private:
  // Creates the draft folder of this step's checkpoint.
  void begin(std::int64_t step);
  std::filesystem::path draft_of(std::int64_t step) const;
  // Writes weights and optimizer state and describes the files on disk.
  std::vector<CheckpointFile> write_tensors(const TrainState& state, int shard,
                                            int shards);
  // Adds state.json to the otherwise complete draft and makes it the newest
  // checkpoint.
  void finish(const TrainState& state,
              const std::vector<CheckpointFile>& files);
  void remove(const std::filesystem::path& place);
  void remove_old(const TrainState& state);
  void point_links(const TrainState& state);
  void point_link(const char* link, std::int64_t step);
  void remove_copy(const std::filesystem::path& link);

  std::filesystem::path folder_;
  int keep_;
};

// The tensors of one shard if their bytes are split evenly: each tensor belongs
// to the shard where it begins. All ranks get a consistent partition.
NamedTensors share_of(const NamedTensors& tensors, int shard, int shards);

// Broadcasts rank 0's state; nullopt on all ranks if rank 0 has none. All ranks
// must call it.
std::optional<TrainState> share_state(const comm::Group& group,
                                      const std::optional<TrainState>& state);

}  // namespace sheaf::train
