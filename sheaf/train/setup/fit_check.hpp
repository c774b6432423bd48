#pragma once
// Whether data, loss and network fit each other.

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "sheaf/train/setup/data_setup.hpp"
#include "sheaf/train/setup/model.hpp"

namespace sheaf::train {

// The target of the first example of each set. UsageError where the loss cannot
// take its type: class numbers are whole. `source` says in messages where the
// data come from, such as " (npy in DIR)".
void check_targets(const RunConfig& config, const DataSets& sets,
                   const std::string& source);

// The network's outputs for an example: those of one class each, and 0 where
// they are of no classes or not known. One forward of the first training
// example, not training and without gradients; where that fails, it is left to
// the training to say why. UsageError where the outputs do not fit the targets,
// or the classes of the data are more.
std::int64_t check_outputs(const RunConfig& config, const Model& model,
                           const DataSets& sets, const std::string& source);

// UsageError where the loss cannot compare these, a row for each example.
void check_shapes(const std::string& loss, const at::Tensor& output,
                  const at::Tensor& target);

}  // namespace sheaf::train
