#pragma once
// Builds the network that a config specifies, and selects its device.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// A module of any type and a function that calls its forward().
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

// Builds the network with weights initialized from the config's seed, the same
// on every rank. Sets libtorch's global seed. Throws UsageError with file and
// line for unknown names and arguments.
Model make_model(const RunConfig& config);

// Returns the config with the network's default arguments filled in.
RunConfig complete(const RunConfig& config);

// This rank's device according to the config; the ranks of a host that use a
// GPU are assigned its GPUs round-robin. Throws UsageError if the number of
// devices does not match the number of ranks, and on each rank whose GPU is not
// available; the other ranks then throw FailedOnRoot. All ranks must call it.
torch::Device device_of_rank(const RunConfig& config, const comm::Group& group);

}  // namespace sheaf::train
