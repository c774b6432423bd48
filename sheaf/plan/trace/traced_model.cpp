#include "sheaf/plan/trace/traced_model.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/plan/trace/trace_numbers.hpp"

namespace sheaf::plan {
namespace {

std::optional<Precision> type_of(const std::string& text) {
  for (const Precision one :
       {Precision::kF32, Precision::kBf16, Precision::kF16})
    if (text == to_string(one)) return one;
  return std::nullopt;  // integers, and f64
}

std::vector<Shape> shapes_of(const JsonValue& node, const char* key) {
  const auto shapes = node.value(key, std::vector<Shape>{});
  for (const Shape& shape : shapes) {
    const bool is_negative = std::any_of(shape.begin(), shape.end(),
                                         [](auto size) { return size < 0; });
    // Also false for NaN: a product of too large sizes and 0.
    const bool fits = elements_of(shape) <= static_cast<double>(kMostBytes);
    if (is_negative || !fits)
      node.at(key).fail(
          "must have sizes of at least 0, and at most 2^48 "
          "elements");
  }
  return shapes;
}

std::int64_t count_of(const JsonValue& value) {
  return value.whole<std::int64_t>(0, kMostBytes);
}

// 0 if there is no such member.
std::int64_t count_of(const JsonValue& from, const char* key) {
  const auto found = from.find(key);
  return found ? count_of(*found) : 0;
}

ModelNode node_of(const JsonValue& from, std::size_t number) {
  ModelNode node;
  node.op = from.at("op").text();
  node.layer = from.value("layer", "");
  if (const auto inputs = from.find("inputs"))
    for (const JsonValue& input : inputs->items())
      node.inputs.push_back(
          input.whole(-1, static_cast<std::int32_t>(number) - 1));
  node.in_shapes = shapes_of(from, "in");
  node.out_shapes = shapes_of(from, "out");
  node.type = type_of(from.value("type", ""));
  return node;
}

TensorStatistics tensor_of(const JsonValue& from, const char* name) {
  const auto one = from.find(name);
  if (!one) return {};
  return {one->value("elements", 0.0), one->value("square", 0.0),
          one->value("largest", 0.0)};
}

LayerStatistics statistics_of(const JsonValue& from) {
  return {
      tensor_of(from, "input"),           tensor_of(from, "weight"),
      tensor_of(from, "output"),          tensor_of(from, "weight_gradient"),
      tensor_of(from, "output_gradient"), from.value("curvature", 0.0)};
}

void read_precision(const JsonValue& from, TracedModel& model) {
  const std::string text = from.value("precision", "f32");
  model.is_uniform = text != "plan";
  if (!model.is_uniform) return;
  try {
    model.precision = parse_precision(text);
  } catch (const UsageError& error) {
    from.at("precision").fail(concat("is not valid: ", error.what()));
  }
}

void read_parts(const JsonValue& from, TracedModel& model) {
  if (const auto list = from.find("parameters"))
    for (const JsonValue& one : list->items())
      model.parameters.push_back({one.at("name").text(),
                                  count_of(one.at("elements")),
                                  one.value("layer", "")});
  for (const JsonValue& one : from.at("nodes").items())
    model.nodes.push_back(node_of(one, model.nodes.size()));
  if (const auto layers = from.find("layers"))
    for (const auto& [name, layer] : layers->members())
      if (const auto statistics = layer.find("statistics"))
        model.statistics[name] = statistics_of(*statistics);
}

void read_memory(const JsonValue& from, TracedModel& model) {
  if (const auto optimizer = from.find("optimizer"))
    model.optimizer_bytes = count_of(*optimizer, "state_bytes");
  const auto memory = from.find("memory");
  if (!memory) return;
  model.bytes_before = count_of(*memory, "before");
  if (const auto peak = memory->find("peak"))
    for (const auto& [phase, bytes] : peak->members())
      model.peak[phase] = count_of(bytes);
}

TracedModel model_of(const JsonValue& from) {
  TracedModel model;
  model.name = from.value("model", "");
  model.batch = count_of(from, "batch");
  model.device = from.value("device", "cpu");
  model.busy_cores = from.value("busy_cores", model.busy_cores);
  model.loader_workers = from.value("loader_workers", model.loader_workers);
  read_precision(from, model);
  read_parts(from, model);
  read_memory(from, model);
  return model;
}

}  // namespace

double elements_of(const Shape& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

TracedModel parse_model(std::string_view text, const std::string& path) {
  const JsonSource source{concat(path, ": its model description"),
                          "record it again"};
  const nlohmann::json json = parse_json(text, source);
  return model_of(JsonValue(json, source));
}

}  // namespace sheaf::plan
