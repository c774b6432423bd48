#pragma once
// Batch normalisation over the examples of all ranks.

#include <torch/nn/module.h>

#include <string>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

// y = (x - mean) / sqrt(variance + eps) * weight + bias with mean and variance
// per channel over the whole group; differentiable. `running_mean` and
// `running_var` may be undefined. Ranks may have different numbers of
// examples, but none at all only if another rank has some.
at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias,
                           const at::Tensor& running_mean,
                           const at::Tensor& running_var, double momentum,
                           double eps, const comm::Group& group);

// From now on, the BatchNorm layers in `module` (BatchNorm1d to 3d, at any
// depth, the very objects that it holds) normalise over the group while they
// train; unmodified modules, for their forward functions stay as they are.
// Returns how many there are. All ranks call it, and all use the layers in the
// same order. The group must outlive their use.
int use_sync_batch_norm(torch::nn::Module& module, const comm::Group& group);
// Undoes it.
void use_local_batch_norm(torch::nn::Module& module);

// The group of the layer that has these tensors, of which either may be
// undefined; one without members where use_sync_batch_norm() gave it none.
comm::Group sync_batch_norm_group(const at::Tensor& running_mean,
                                  const at::Tensor& weight);

// The first layer in `module` that normalises over a group of more than one,
// such as "features.1"; "itself" for the module; empty where there is none.
std::string first_sync_batch_norm(torch::nn::Module& module);

}  // namespace sheaf::parallel
