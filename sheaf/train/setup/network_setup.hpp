#pragma once
// The network that a run description asks for.

#include "sheaf/train/config/config.hpp"
#include "sheaf/train/setup/model.hpp"

namespace sheaf::train {

// With fresh weights from the description's seed, the same on every rank.
// UsageError with file and line for names and arguments that are not known.
Model make_model(const RunConfig& config);

// The description with the network's own arguments filled in.
RunConfig complete(const RunConfig& config);

}  // namespace sheaf::train
