#pragma once
// Checks that data, loss and network match.

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "sheaf/train/setup/data_setup.hpp"
#include "sheaf/train/setup/network_setup.hpp"

namespace sheaf::train {

// Checks the type of the first target of each set. Throws UsageError if the
// loss does not accept it: class indices must be integers. `source` describes
// the data in messages, such as " (npy in DIR)".
void check_targets(const RunConfig& config, const DataSets& sets,
                   const std::string& source);

// Returns the number of class outputs of the network, or 0 if its outputs are
// not classes or unknown. Runs one forward pass of the first training example
// in evaluation mode without gradients; if that fails, returns 0 and leaves the
// error to the training. Throws UsageError if the outputs do not match the
// targets or the data has more classes than the network has outputs.
std::int64_t check_outputs(const RunConfig& config, const Model& model,
                           const DataSets& sets, const std::string& source);

// Throws UsageError if the loss cannot compare an output with a target; both
// have one row per example.
void check_shapes(const std::string& loss, const at::Tensor& output,
                  const at::Tensor& target);

}  // namespace sheaf::train
