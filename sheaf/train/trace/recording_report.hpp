#pragma once
// The "sheaf" object of a trace; see docs/reference/trace.md.

#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include "sheaf/tensor/record/graph_recorder.hpp"
#include "sheaf/tensor/record/memory_watch.hpp"
#include "sheaf/train/step/learner.hpp"

namespace sheaf::train {

using Report = nlohmann::ordered_json;
using LayerTable = std::map<std::string, tensor::LayerStatistics>;

Report report_nodes(const std::vector<tensor::GraphNode>& nodes);
// Lists the module's parameters in order, with the layers they belong to.
Report report_parameters(const torch::nn::Module& module,
                         const LayerTable& layers);
// Includes the current gradients of the module's weights.
Report report_layers(const torch::nn::Module& module, const LayerTable& layers);
Report report_memory(const tensor::PhasePeaks& peaks);
// Adds the curvature to the statistics of all layers with a weight. All ranks
// must call it.
void report_curvature(Learner& learner, const data::Batch& batch, int samples,
                      Report& layers);
// All ranks must call it.
Report report_optimizer(const Learner& learner, const RunConfig& config);

}  // namespace sheaf::train
