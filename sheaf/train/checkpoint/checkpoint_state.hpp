#pragma once
// state.json of a checkpoint: the numbers of a TrainState and a description of
// the checkpoint's files.

#include <string>
#include <string_view>

#include "sheaf/train/checkpoint/checkpoint.hpp"

namespace sheaf::train {

// A file of a checkpoint as described in state.json.
struct CheckpointFile {
  std::string name;
  std::size_t bytes = 0;
  std::uint32_t checksum = 0;
};
CheckpointFile describe(std::string name, std::string_view bytes);

// "weights.pt", or "weights-00001-of-00004.pt" if there is more than one shard;
// `kind` is weights or optimizer.
std::string shard_name(std::string_view kind, int shard, int shards);

// `files` lists the weights of all shards, then the optimizer files.
std::string state_text(const TrainState& state,
                       const std::vector<CheckpointFile>& files);

// The contents of state.json: the numbers of a state, and its files.
struct KnownState {
  TrainState numbers;
  std::vector<CheckpointFile> files;  // in the order given to state_text()
};
// Throws an IoError that names the checkpoint if the text is damaged.
KnownState parse_state(const std::string& text, const std::string& name);

// Throws an IoError that names the checkpoint if size or checksum of a file is
// wrong.
void check_file(const CheckpointFile& file, std::string_view bytes,
                const std::string& name);

// Stores the optimizer's tensors, the exchange's and the metric sums in one
// dictionary; take_rest() separates them again.
NamedTensors with_rest(const TrainState& state);
void take_rest(TrainState& state);

}  // namespace sheaf::train
