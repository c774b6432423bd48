#include "sheaf/plan/trace/traced_model.hpp"

#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

using nlohmann::json;

std::optional<Precision> type_of(const std::string& text) {
  for (const Precision one :
       {Precision::kF32, Precision::kBf16, Precision::kF16})
    if (text == to_string(one)) return one;
  return std::nullopt;  // integers, and f64
}

ModelNode node_of(const json& from, std::size_t number) {
  ModelNode node;
  node.op = from.at("op").get<std::string>();
  node.layer = from.value("layer", "");
  node.inputs = from.value("inputs", std::vector<std::int32_t>{});
  node.in_shapes = from.value("in", std::vector<Shape>{});
  node.out_shapes = from.value("out", std::vector<Shape>{});
  node.type = type_of(from.value("type", ""));
  for (const std::int32_t input : node.inputs)
    if (input < -1 || input >= static_cast<std::int32_t>(number))
      throw IoError(concat("node ", number, " takes input from node ", input,
                           ", which does not precede it"));
  return node;
}

TensorStatistics tensor_of(const json& from, const char* name) {
  if (!from.contains(name)) return {};
  const json& one = from[name];
  return {one.value("elements", 0.0), one.value("square", 0.0),
          one.value("largest", 0.0)};
}

LayerStatistics statistics_of(const json& from) {
  return {
      tensor_of(from, "input"),           tensor_of(from, "weight"),
      tensor_of(from, "output"),          tensor_of(from, "weight_gradient"),
      tensor_of(from, "output_gradient"), from.value("curvature", 0.0)};
}

void read_precision(const std::string& text, TracedModel& model) {
  model.is_uniform = text != "plan";
  if (model.is_uniform) model.precision = parse_precision(text);
}

TracedModel model_of(const json& from) {
  TracedModel model;
  model.name = from.value("model", "");
  model.batch = from.value("batch", std::int64_t{0});
  model.device = from.value("device", "cpu");
  model.busy_cores = from.value("busy_cores", model.busy_cores);
  model.loader_workers = from.value("loader_workers", model.loader_workers);
  read_precision(from.value("precision", "f32"), model);
  for (const json& one : from.value("parameters", json::array()))
    model.parameters.push_back({one.at("name").get<std::string>(),
                                one.at("elements").get<std::int64_t>(),
                                one.value("layer", "")});
  if (from.contains("optimizer"))
    model.optimizer_bytes =
        from["optimizer"].value("state_bytes", std::int64_t{0});
  for (const json& one : from.at("nodes"))
    model.nodes.push_back(node_of(one, model.nodes.size()));
  const json layers = from.value("layers", json::object());
  for (const auto& [name, layer] : layers.items())
    if (layer.contains("statistics"))
      model.statistics[name] = statistics_of(layer["statistics"]);
  if (from.contains("memory")) {
    model.bytes_before = from["memory"].value("before", std::int64_t{0});
    model.peak = from["memory"].value("peak", model.peak);
  }
  return model;
}

}  // namespace

double elements_of(const Shape& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

TracedModel parse_model(std::string_view text, const std::string& path) {
  try {
    return model_of(json::parse(text));
  } catch (const json::exception& error) {
    throw IoError(concat(path, ": its model description is damaged: ",
                         error.what(), "; record it again"));
  } catch (const Error& error) {
    throw IoError(concat(path, ": its model description is damaged: ",
                         error.what(), "; record it again"));
  }
}

}  // namespace sheaf::plan
