#pragma once
// Where a run stands, and the folder that keeps it.
//
// checkpoints/step-0000000123/ holds weights.pt and optimizer.pt (dictionaries
// of tensors that Python's torch.load reads) and state.json (the rest, and the
// checksums of all). Where ranks write it together, each has files of its own,
// weights-00002-of-00004.pt, with a share of the tensors: a shard. Any number
// of ranks reads any number of shards. The folder is written under another
// name, synchronised and renamed, so it is whole if it is there. The links
// `latest` and `best` point to two of them, for people: which one is the best,
// state.json of the newest says.

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

// What a run has taken so far, over all its resumptions: what came after the
// checkpoint that it was resumed from does not count.
struct RunTotals {
  double seconds = 0;
  std::int64_t epochs = 0;         // that are complete
  double epoch_seconds = 0;        // of these, with validation
  double open_epoch_seconds = 0;   // of the one under way
  StepTimes times;                 // of the steps of complete epochs
  StepTimes open_times;            // of the epoch under way
  std::int64_t skipped_steps = 0;  // as not finite
  std::int64_t open_skipped = 0;   // of the epoch under way
  MetricValues train;              // of the last complete epoch
  MetricValues validation;         // without rows: there was none
};

// Random numbers are a function of seed, step and rank, so they need no state
// of their own.
struct TrainState {
  std::int64_t step = 0;   // optimiser steps done
  std::int64_t epoch = 0;  // the epoch to go on with
  std::int64_t batch = 0;  // global batches of it that are done
  std::int64_t pretrained_stages = 0;
  std::int64_t seed = 0;
  std::int64_t global_batch = 0;
  std::int64_t examples = 0;             // of the training set; 0: not known
  std::vector<std::string> class_names;  // by label; empty: not known
  double best = std::numeric_limits<double>::quiet_NaN();  // of the metric
  std::int64_t best_step = -1;  // of the checkpoint with it; -1: none yet
  std::string best_metric;      // which it is of; empty: not known
  std::int64_t epochs_since_best = 0;
  bool has_stopped_early = false;
  RunTotals totals;
  std::vector<double> metric_sums;  // of the epoch so far; see Metrics
  NamedTensors weights;             // parameters and buffers
  NamedTensors optimizer;
  NamedTensors exchange;  // what the exchange keeps; see Strategy
};

struct CheckpointFile;  // checkpoint_state.hpp

class CheckpointFolder {
 public:
  // The newest `keep` stay, and the one of the state's best_step.
  CheckpointFolder(std::filesystem::path folder, int keep);

  // For one rank. IoError names what could not be written; then everything
  // that was there before is still good.
  void save(const TrainState& state);
  // The same by all ranks of a group, each with its share of the tensors, in
  // files of its own; the rest is rank 0's. They must see one folder, else
  // IoError. Where a rank fails, none goes on, as with from_root().
  void save_shards(const comm::Group& group, const TrainState& share);

  // The newest good one, or nothing where there is none at all. What is
  // corrupt is logged and passed over; IoError when nothing good is left.
  std::optional<TrainState> load_latest() const;
  // That of one step; IoError as of load().
  TrainState load_step(std::int64_t step) const;

  // Renames those of later steps, which were passed over, to "bad-step-...".
  void set_aside_after(std::int64_t step);
  // The links point to the checkpoints of the state's step and of its
  // best_step; without that, there is no link `best`. Copies of checkpoints in
  // their place, as programs leave that follow links, are removed; IoError
  // names what else is there.
  void repair_links(const TrainState& state);

  // The names, oldest first: "step-0000000123".
  std::vector<std::string> names() const;
  // IoError names the file that is missing, truncated or corrupt.
  TrainState load(const std::string& name) const;

 private:
  // Makes the folder that becomes the checkpoint of this step.
  void begin(std::int64_t step);
  std::filesystem::path draft_of(std::int64_t step) const;
  // What is on the disk afterwards: weights and optimiser.
  std::vector<CheckpointFile> write_tensors(const TrainState& state, int shard,
                                            int shards);
  // The draft, whole but for state.json, becomes the newest checkpoint.
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

// Those of the tensors that fall to a shard when their bytes are cut evenly:
// each is in the shard where it begins. The same on all ranks that ask.
NamedTensors share_of(const NamedTensors& tensors, int shard, int shards);

// Rank 0's state on every rank, or nothing on every rank.
std::optional<TrainState> share_state(const comm::Group& group,
                                      const std::optional<TrainState>& state);

}  // namespace sheaf::train
