#pragma once
// state.json of a checkpoint: the numbers of a TrainState, and what its files
// must be like.

#include <string>
#include <string_view>

#include "sheaf/train/checkpoint.hpp"

namespace sheaf::train {

inline constexpr const char* kWeightsFile = "weights.pt";
inline constexpr const char* kOptimizerFile = "optimizer.pt";

// The bytes of the files go in as sizes and checksums.
struct CheckpointFiles {
  std::string weights;
  std::string optimizer;
};

std::string state_text(const TrainState& state, const CheckpointFiles& files);

// The numbers only. IoError, naming the checkpoint `name`, when the text is
// damaged or the files are not those that it was written for.
TrainState parse_state(const std::string& text, const CheckpointFiles& files,
                       const std::string& name);

// The optimiser's tensors, the exchange's and the metrics' sums in one
// dictionary, and back.
NamedTensors with_rest(const TrainState& state);
void take_rest(TrainState& state);

}  // namespace sheaf::train
