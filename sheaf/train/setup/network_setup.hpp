#pragma once
// Builds the network that a config specifies.

#include "sheaf/train/config/config.hpp"
#include "sheaf/train/setup/model.hpp"

namespace sheaf::train {

// Builds the network with weights initialized from the config's seed, the same
// on every rank. Sets libtorch's global seed. Throws UsageError with file and
// line for unknown names and arguments.
Model make_model(const RunConfig& config);

// Returns the config with the network's default arguments filled in.
RunConfig complete(const RunConfig& config);

}  // namespace sheaf::train
