#pragma once
// Batch normalization over the examples of all ranks.

#include <torch/nn/module.h>

#include <string>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

// y = (x - mean) / sqrt(variance + eps) * weight + bias with mean and variance
// per channel over the whole group; differentiable. `running_mean` and
// `running_var` may be undefined. Ranks may have different numbers of examples,
// also none, but there must be more than one value per channel over all ranks.
// All ranks must call it.
at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias,
                           const at::Tensor& running_mean,
                           const at::Tensor& running_var, double momentum,
                           double eps, const comm::Group& group);

// From now on, the BatchNorm layers in `module` (BatchNorm1d to BatchNorm3d, at
// any depth) normalize over the group while they are in training mode. The
// module's code is not modified; the registration applies to these layer
// objects. Returns the number of layers. All ranks must call it, and all must
// use the layers in the same order. The layers keep a copy of the group until
// they are destroyed; the module is not kept. Not thread-safe with forward
// passes of the same module.
int use_sync_batch_norm(torch::nn::Module& module, const comm::Group& group);
// Reverts use_sync_batch_norm().
void use_local_batch_norm(torch::nn::Module& module);

// The group of the layer with these tensors, either of which may be undefined.
// Returns an empty group for a layer without one.
comm::Group sync_batch_norm_group(const at::Tensor& running_mean,
                                  const at::Tensor& weight);

// The name of the first layer in `module` that normalizes over a group of more
// than one rank, such as "features.1"; "itself" for the module itself; empty if
// there is none.
std::string first_sync_batch_norm(torch::nn::Module& module);

}  // namespace sheaf::parallel
