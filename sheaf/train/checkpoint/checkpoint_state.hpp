#pragma once
// state.json of a checkpoint: the numbers of a TrainState, and what its files
// must be like.

#include <string>
#include <string_view>

#include "sheaf/train/checkpoint/checkpoint.hpp"

namespace sheaf::train {

// A file of a checkpoint, as state.json tells of it.
struct CheckpointFile {
  std::string name;
  std::size_t bytes = 0;
  std::uint32_t checksum = 0;
};
CheckpointFile describe(std::string name, std::string_view bytes);

// "weights.pt", or "weights-00001-of-00004.pt" where there are more shards than
// one; `kind` is weights or optimizer.
std::string shard_name(std::string_view kind, int shard, int shards);

// `files`: the weights of all shards, then the optimiser's.
std::string state_text(const TrainState& state,
                       const std::vector<CheckpointFile>& files);

// What state.json tells: the numbers of a state, and its files.
struct KnownState {
  TrainState numbers;
  std::vector<CheckpointFile> files;  // as state_text() was given them
};
// IoError, naming the checkpoint `name`, when the text is damaged.
KnownState parse_state(const std::string& text, const std::string& name);

// IoError, naming the checkpoint, when a file is not what it was written as.
void check_file(const CheckpointFile& file, std::string_view bytes,
                const std::string& name);

// The optimiser's tensors, the exchange's and the metrics' sums in one
// dictionary, and back.
NamedTensors with_rest(const TrainState& state);
void take_rest(TrainState& state);

}  // namespace sheaf::train
