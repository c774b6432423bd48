#pragma once
// A module's tensors, by name.

#include <torch/nn/module.h>

#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/buffers.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"

namespace sheaf::parallel {

// A parameter that several layers share is listed once.
NamedTensors unique_parameters(torch::nn::Module& module);

struct ModuleTensors {
  NamedTensors parameters;
  std::vector<TrainedParameter> trained;  // those that require a gradient
  ModuleBuffers buffers;

  ModuleTensors() = default;
  explicit ModuleTensors(torch::nn::Module& module);
  NamedTensors all() const;
};
// Collects the module's tensors. Throws UsageError on all ranks if they differ
// between ranks. Tensors that are not in `known` are broadcast from rank 0. All
// ranks must call it.
ModuleTensors share_tensors(const comm::Group& group, torch::nn::Module& module,
                            const ModuleTensors& known);
// Throws CheckError with the first parameter or buffer whose bits differ
// between ranks. Does not compare the parameters in `kept`, nor buffers that a
// rank has changed; see ModuleBuffers. All ranks must call it.
void check_same_weights(const comm::Group& group, const ModuleTensors& tensors,
                        const std::vector<at::Tensor>& kept);
// Throws UsageError if there is nothing to train.
void check_not_empty(const std::vector<TrainedParameter>& trained);

}  // namespace sheaf::parallel
