#pragma once
// state.json of a checkpoint: the numbers of a run's state, and a description
// of the checkpoint's files.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/train/checkpoint/run_state.hpp"

namespace sheaf::train {

// A larger state.json, or one of more shards, is not accepted.
inline constexpr std::uint64_t kMostStateBytes = 32 << 20;
inline constexpr int kMostShards = 1 << 14;

// A file of a checkpoint as described in state.json.
struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
};
CheckpointFile describe(std::string name, std::string_view bytes);

// "weights.pt", or "weights-00001-of-00004.pt" if there is more than one shard;
// `kind` is weights or optimizer.
std::string shard_name(std::string_view kind, int shard, int shards);

// `files` lists the weights of all shards, then the optimizer files.
std::string state_text(const RunState& state,
                       const std::vector<CheckpointFile>& files);

// The contents of state.json.
struct KnownState {
  RunState numbers;
  std::vector<CheckpointFile> files;  // in the order given to state_text()
};
// Throws an IoError that names the checkpoint if the text is damaged, whatever
// it holds. The names of the files follow from their number.
KnownState parse_state(std::string_view text, const std::string& name);

// A checkpoint was read, and its content is not what save() wrote.
class InvalidCheckpoint : public IoError {
 public:
  using IoError::IoError;
};

// Throws an InvalidCheckpoint that names the checkpoint if `found` differs from
// `file`.
void check_file(const CheckpointFile& file, const CheckpointFile& found,
                const std::string& name);

// Throws an InvalidCheckpoint for `name`, which says to try an older one.
[[noreturn]] void fail_as_invalid(const std::string& name,
                                  const std::string& why);

}  // namespace sheaf::train
