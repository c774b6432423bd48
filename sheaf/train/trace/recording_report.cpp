#include "sheaf/train/trace/recording_report.hpp"

namespace sheaf::train {
namespace {

Report report_statistics(const tensor::Statistics& one) {
  return {{"elements", one.elements},
          {"square", one.square},
          {"largest", one.largest}};
}

// The layer of a parameter: "conv1" for "conv1.weight" and "conv1.bias", or the
// parameter's full name if that is a layer's name; empty if unknown.
std::string layer_of_parameter(const std::string& name,
                               const LayerTable& layers) {
  if (layers.contains(name)) return name;
  const std::string around = name.substr(0, name.rfind('.'));
  return layers.contains(around) ? around : "";
}

bool is_weight_of(const std::string& parameter, const std::string& layer) {
  return parameter == layer || parameter == layer + ".weight";
}

tensor::Statistics gradient_of(const torch::nn::Module& module,
                               const std::string& layer) {
  tensor::Statistics result;
  for (const auto& entry : module.named_parameters())
    if (is_weight_of(entry.key(), layer)) result.add(entry.value().grad());
  return result;
}

}  // namespace

Report report_nodes(const std::vector<tensor::GraphNode>& nodes) {
  Report list = Report::array();
  for (const tensor::GraphNode& node : nodes)
    list.push_back({{"op", node.op},
                    {"layer", node.layer},
                    {"inputs", node.inputs},
                    {"in", node.in},
                    {"out", node.out},
                    {"type", node.type}});
  return list;
}

Report report_parameters(const torch::nn::Module& module,
                         const LayerTable& layers) {
  Report list = Report::array();
  for (const auto& entry : module.named_parameters())
    list.push_back({{"name", entry.key()},
                    {"elements", entry.value().numel()},
                    {"layer", layer_of_parameter(entry.key(), layers)}});
  return list;
}

Report report_layers(const torch::nn::Module& module,
                     const LayerTable& layers) {
  Report result = Report::object();
  for (const auto& [name, layer] : layers) {
    Report statistics{{"input", report_statistics(layer.input)},
                      {"weight", report_statistics(layer.weight)},
                      {"output", {{"elements", layer.output.elements}}}};
    const tensor::Statistics gradient = gradient_of(module, name);
    if (gradient.elements > 0)
      statistics["weight_gradient"] = report_statistics(gradient);
    if (layer.output_gradient.elements > 0)
      statistics["output_gradient"] = report_statistics(layer.output_gradient);
    result[name] = {{"kind", layer.op}, {"statistics", statistics}};
  }
  return result;
}

// The loss counts as forward, and waiting for the exchange as backward.
Report report_memory(const tensor::PhasePeaks& peaks) {
  Report most = Report::object();
  const auto raise = [&](const char* to, const std::string& from) {
    const auto found = peaks.peaks().find(from);
    if (found == peaks.peaks().end()) return;
    most[to] = std::max(most.value(to, std::int64_t{0}), found->second);
  };
  for (const char* phase : {"forward", "loss"}) raise("forward", phase);
  for (const char* phase : {"backward", "exchange"}) raise("backward", phase);
  for (const char* phase : {"clip", "optimizer"}) raise("optimizer", phase);
  return {{"before", peaks.before()}, {"peak", most}};
}

void report_curvature(Learner& learner, const data::Batch& batch, int samples,
                      Report& layers) {
  std::vector<std::string> names;
  std::vector<torch::Tensor> weights;
  const auto parameters = learner.module().named_parameters();
  for (const auto& [layer, told] : layers.items())
    for (const auto& entry : parameters)
      if (is_weight_of(entry.key(), layer) && entry.value().requires_grad()) {
        names.push_back(layer);
        weights.push_back(entry.value());
      }
  const auto values = learner.curvature(batch, weights, samples);
  for (std::size_t i = 0; i < names.size(); ++i) {
    Report& statistics = layers[names[i]]["statistics"];
    statistics["curvature"] = values[i].trace;
    statistics["curvature_error"] = values[i].error;
  }
}

Report report_optimizer(const Learner& learner, const RunConfig& config) {
  TrainState state;
  learner.save_to(state);
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : state.optimizer) bytes += tensor.nbytes();
  return {{"name", config.optimizer.name}, {"state_bytes", bytes}};
}

}  // namespace sheaf::train
