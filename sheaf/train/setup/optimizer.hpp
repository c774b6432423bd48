#pragma once
// Creates libtorch optimizers from a config; saves and loads their state by
// parameter name.

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

// Returns buffers and step counts under names such as
// "momentum_buffer/conv1.weight". The tensors share the optimizer's memory.
// `parameters` must be those the optimizer was created with. Parameters that
// were never updated have no state.
NamedTensors optimizer_state(const torch::optim::Optimizer& optimizer,
                             const NamedTensors& parameters);

// Replaces the optimizer's state by a copy of what optimizer_state() returned.
// Throws a UsageError that names the mismatch: state of another optimizer, or a
// buffer of another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer,
                          const NamedTensors& parameters,
                          const NamedTensors& state);

}  // namespace sheaf::train
