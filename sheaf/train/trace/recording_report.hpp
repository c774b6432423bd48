#pragma once
// What a trace says under "sheaf": docs/trace.md.

#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include "sheaf/tensor/record/graph_recorder.hpp"
#include "sheaf/tensor/record/memory_watch.hpp"
#include "sheaf/train/loop/learner.hpp"

namespace sheaf::train {

using Report = nlohmann::ordered_json;
using LayerTable = std::map<std::string, tensor::LayerStatistics>;

Report report_nodes(const std::vector<tensor::GraphNode>& nodes);
// In the order of the module's parameters, with the layers that they belong to.
Report report_parameters(const torch::nn::Module& module,
                         const LayerTable& layers);
// With the gradients that the module's weights have now.
Report report_layers(const torch::nn::Module& module, const LayerTable& layers);
Report report_memory(const tensor::PhasePeaks& peaks);
// Adds it to the statistics of the layers with a weight. All ranks call it.
void report_curvature(Learner& learner, const data::Batch& batch, int samples,
                      Report& layers);
// All ranks call it.
Report report_optimizer(const Learner& learner, const RunConfig& config);

}  // namespace sheaf::train
