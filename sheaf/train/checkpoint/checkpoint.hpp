#pragma once
// The state of a run and the folder that stores it.
//
// checkpoints/step-0000000123/ holds weights.pt and optimizer.pt (dictionaries
// of tensors that Python's torch.load can read) and state.json (everything
// else, and the checksums of all files). If all ranks write a checkpoint, each
// writes its own files, such as weights-00002-of-00004.pt, with a share of the
// tensors: a shard. Any number of ranks can read any number of shards. The
// folder is written under another name, synchronized and renamed, so it is
// complete if it exists (checkpoint_places.hpp). The links `latest` and `best`
// point to two of the checkpoints, for convenience: the authoritative record of
// the best one is state.json of the newest.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/checkpoint/checkpoint_places.hpp"
#include "sheaf/train/checkpoint/run_state.hpp"
#include "sheaf/train/setup/optimizer.hpp"

namespace sheaf::train {

// Everything needed to resume a run. Random numbers are a function of seed,
// step and rank and need no saved state.
struct TrainState : RunState {
  std::vector<double> metric_sums = {};  // of the current epoch; see Metrics
  NamedTensors weights = {};             // parameters and buffers
  NamedTensors optimizer = {};
  NamedTensors exchange = {};  // state of the exchange; see Strategy
};

// The checkpoints of one run. Not thread-safe; only one process may write them.
class CheckpointFolder {
 public:
  // Keeps the newest `keep` checkpoints and that of the state's best_step.
  CheckpointFolder(std::filesystem::path folder, int keep);

  // Saves a checkpoint; call it on one rank only. On failure throws an IoError
  // that names the file; the files written so far are removed, and earlier
  // checkpoints stay valid.
  void save(const TrainState& state);
  // Saves a checkpoint from all ranks of the group, each writing its share of
  // the tensors to its own files; all other state is taken from rank 0. All
  // ranks must call it and must see the same folder, else IoError. If one rank
  // fails, all throw, as with from_root().
  void save_shards(const comm::Group& group, const TrainState& share);

  // Loads the newest valid checkpoint; nullopt if there is none. Corrupt
  // checkpoints are logged and skipped; throws IoError if none is valid, and
  // AccessError if one may be valid but cannot be read now.
  std::optional<TrainState> load_latest() const;
  // Loads the checkpoint of one step; throws like load().
  TrainState load_step(std::int64_t step) const;
  // Whether there is one. Throws IoError if that cannot be found out.
  bool contains(std::int64_t step) const;

  // Prepares the folder for a run that was resumed from the state: ends what a
  // killed run left unfinished; makes the links point to the checkpoints of the
  // state's step and best_step (removes `best` if that does not exist); renames
  // the checkpoints of later steps, which load_latest() skipped, to
  // "bad-step-..."; removes old ones. Folders in place of the links that are
  // copies of checkpoints are removed; throws an IoError that names anything
  // else.
  void repair(const TrainState& state);

  // Names of all checkpoints, oldest first: "step-0000000123".
  std::vector<std::string> names() const;
  // Throws an IoError that names a file that cannot be read, and
  // InvalidCheckpoint for a truncated or corrupt one.
  TrainState load(const std::string& name) const;

 private:
  // Writes weights and optimizer state and describes the files on disk.
  static std::vector<CheckpointFile> write_tensors(
      const std::filesystem::path& draft, const TrainState& state, int shard,
      int shards);
  // Adds state.json to the otherwise complete draft and makes it the newest
  // checkpoint.
  void finish(Draft& draft, const TrainState& state,
              const std::vector<CheckpointFile>& files);
  void point_links(const TrainState& state);
  void remove_old(const TrainState& state);

  CheckpointPlaces places_;
  int keep_;
};

// The tensors of one shard if their bytes are split evenly: each tensor belongs
// to the shard where it begins. All ranks get a consistent partition.
NamedTensors share_of(const NamedTensors& tensors, int shard, int shards);

// The optimizer's tensors, the exchange's and the metric sums in one
// dictionary, which a checkpoint stores in one file; take_rest() separates them
// again.
NamedTensors with_rest(const TrainState& state);
void take_rest(TrainState& state);

// Broadcasts rank 0's state; nullopt on all ranks if rank 0 has none. All ranks
// must call it.
std::optional<TrainState> share_state(const comm::Group& group,
                                      const std::optional<TrainState>& state);

}  // namespace sheaf::train
