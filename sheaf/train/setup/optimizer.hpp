#pragma once
// libtorch's optimisers by description, and their state by parameter name.

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

using NamedTensors = tensor::StateDict;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const OptimizerConfig& config, std::vector<torch::Tensor> parameters);

void set_learning_rate(torch::optim::Optimizer& optimizer, double rate);

// Buffers and step counts as "momentum_buffer/conv1.weight" and so on. The
// tensors share the optimiser's memory. `parameters` are those that it was
// made with. Parameters that were never updated have none.
NamedTensors optimizer_state(const torch::optim::Optimizer& optimizer,
                             const NamedTensors& parameters);

// Makes the state what optimizer_state() gave, by copy. UsageError names what
// does not fit: another optimiser, or a buffer of another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer,
                          const NamedTensors& parameters,
                          const NamedTensors& state);

}  // namespace sheaf::train
