#pragma once
// A module's tensors, by name.

#include <torch/nn/module.h>

#include <vector>

#include "sheaf/parallel/agreement.hpp"
#include "sheaf/parallel/reducer.hpp"

namespace sheaf::parallel {

// A parameter that several layers share is listed once.
NamedTensors unique_parameters(torch::nn::Module& module);
NamedTensors buffers_of(torch::nn::Module& module);

// Those of the list that are not among the known ones.
NamedTensors without(NamedTensors list, const NamedTensors& known);

// Those of the parameters that are trained.
std::vector<ReducedParameter> trained_parameters(
    torch::nn::Module& module, const NamedTensors& parameters);
// UsageError when there are none.
void check_not_empty(const std::vector<ReducedParameter>& list);

}  // namespace sheaf::parallel
