#include "sheaf/plan/trace/model_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace sheaf::plan {
namespace {

bool is_cast(const ModelNode& node) {
  return node.op == "aten::to" || node.op == "aten::_to_copy";
}

class SlotMaker {
 public:
  explicit SlotMaker(const TracedModel& model) : nodes_(model.nodes) {
    for (const ModelParameter& one : model.parameters)
      if (!one.layer.empty() && weights_[one.layer] < one.elements)
        weights_[one.layer] = one.elements;
  }

  ModelGraph make() {
    const std::size_t count = nodes_.size();
    graph_.slot_of_node.assign(count, -1);
    graph_.cast_of_node.assign(count, -1);
    for (std::size_t i = 0; i < count; i = last_of(i) + 1) add_slot(i);
    return std::move(graph_);
  }

 private:
  // The nodes of a layer are consecutive; casts precede the work that needs
  // them.
  std::size_t last_of(std::size_t first) const {
    const std::string& layer = nodes_[first].layer;
    std::size_t last = first;
    if (layer.empty()) {
      while (is_cast(nodes_[last]) && last + 1 < nodes_.size() &&
             nodes_[last + 1].layer.empty())
        ++last;
      return last;
    }
    bool has_work = !is_cast(nodes_[first]);
    while (last + 1 < nodes_.size() && nodes_[last + 1].layer == layer) {
      // The layer is called again immediately: the new call begins with its
      // casts.
      if (has_work && is_cast(nodes_[last + 1]) && is_product(nodes_[last]))
        break;
      ++last;
      has_work |= !is_cast(nodes_[last]);
    }
    return last;
  }
  static bool is_product(const ModelNode& node) {
    return node.op.find("conv") != std::string::npos ||
           node.op == "aten::linear" || node.op == "aten::matmul" ||
           node.op == "aten::addmm";
  }

  void add_slot(std::size_t first) {
    const std::size_t last = last_of(first);
    const auto self = static_cast<std::int32_t>(graph_.slots.size());
    Slot slot;
    slot.op = nodes_[last].op;
    slot.layer = nodes_[last].layer;
    const std::string base = slot.layer.empty() ? slot.op : slot.layer;
    const int number = seen_[base]++;
    slot.name = slot.layer.empty() || number > 0
                    ? fmt::format("{}#{}", base, number)
                    : base;
    if (!nodes_[last].out_shapes.empty())
      slot.out_shape = nodes_[last].out_shapes[0];
    slot.type = nodes_[last].type;
    if (const auto found = weights_.find(slot.layer); found != weights_.end())
      slot.weight_elements = static_cast<double>(found->second);
    for (std::size_t i = first; i <= last; ++i) graph_.slot_of_node[i] = self;
    for (std::size_t i = first; i <= last; ++i) add_inputs(i, slot);
    sort_inputs(slot);
    for (std::size_t i = first; i <= last; ++i) number_cast(i, slot);
    slot.depth = depth_of(slot);
    graph_.depth = std::max(graph_.depth, slot.depth);
    graph_.slots.push_back(std::move(slot));
  }

  // The input of `node` at argument `k`, if it comes from another slot.
  std::optional<SlotInput> input_of(std::size_t node, std::size_t k) const {
    const std::int32_t from = nodes_[node].inputs[k];
    if (from < 0) return std::nullopt;
    const std::int32_t producer =
        graph_.slot_of_node[static_cast<std::size_t>(from)];
    if (producer == graph_.slot_of_node[node]) return std::nullopt;
    const auto& shapes = nodes_[node].in_shapes;
    return SlotInput{producer, k < shapes.size() ? elements_of(shapes[k]) : 0};
  }
  void add_inputs(std::size_t node, Slot& slot) const {
    for (std::size_t k = 0; k < nodes_[node].inputs.size(); ++k)
      if (const auto input = input_of(node, k)) slot.inputs.push_back(*input);
  }
  // Sorted by producer, because casts change the order of arguments.
  static bool precedes(const SlotInput& a, const SlotInput& b) {
    return std::pair(a.slot, a.elements) < std::pair(b.slot, b.elements);
  }
  static void sort_inputs(Slot& slot) {
    std::sort(slot.inputs.begin(), slot.inputs.end(), precedes);
    slot.inputs.erase(std::unique(slot.inputs.begin(), slot.inputs.end()),
                      slot.inputs.end());
  }
  void number_cast(std::size_t node, Slot& slot) {
    if (!is_cast(nodes_[node])) return;
    for (std::size_t k = 0; k < nodes_[node].inputs.size(); ++k)
      if (const auto input = input_of(node, k)) {
        const auto at = std::lower_bound(slot.inputs.begin(), slot.inputs.end(),
                                         *input, precedes);
        graph_.cast_of_node[node] =
            static_cast<std::int32_t>(at - slot.inputs.begin());
        slot.has_cast = true;
      }
  }

  std::int32_t depth_of(const Slot& slot) const {
    std::int32_t depth = 0;
    for (const SlotInput& input : slot.inputs)
      depth = std::max(
          depth, graph_.slots[static_cast<std::size_t>(input.slot)].depth);
    return depth + (slot.layer.empty() ? 0 : 1);
  }

  const std::vector<ModelNode>& nodes_;
  ModelGraph graph_;
  std::map<std::string, int> seen_;
  std::map<std::string, std::int64_t> weights_;
};

// `name` inside of double quotes.
std::string dot_text(const std::string& name) {
  std::string text;
  for (const char letter : name) {
    if (letter == '"' || letter == '\\') text += '\\';
    text += letter;
  }
  return text;
}

std::string shape_text(const Shape& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

}  // namespace

ModelGraph make_model_graph(const TracedModel& model) {
  return SlotMaker(model).make();
}

std::string json_of(const ModelGraph& graph) {
  nlohmann::ordered_json list = nlohmann::json::array();
  for (const Slot& slot : graph.slots) {
    nlohmann::ordered_json inputs = nlohmann::json::array();
    for (const SlotInput& input : slot.inputs) inputs.push_back(input.slot);
    nlohmann::ordered_json one = {{"name", slot.name},
                                  {"op", slot.op},
                                  {"inputs", inputs},
                                  {"out", slot.out_shape},
                                  {"depth", slot.depth}};
    if (!slot.layer.empty()) {
      one["layer"] = slot.layer;
      one["weight_elements"] = slot.weight_elements;
    }
    list.push_back(std::move(one));
  }
  return nlohmann::ordered_json{{"depth", graph.depth}, {"operators", list}}
      .dump(1);
}

std::string dot_of(const ModelGraph& graph) {
  std::string text = "digraph model {\n  node [shape=box, fontsize=10];\n";
  for (std::size_t i = 0; i < graph.slots.size(); ++i) {
    const Slot& slot = graph.slots[i];
    text += fmt::format("  n{} [label=\"{}\\n{}\"{}];\n", i,
                        dot_text(slot.name), shape_text(slot.out_shape),
                        slot.layer.empty() ? "" : ", style=bold");
    for (const SlotInput& input : slot.inputs)
      text += fmt::format("  n{} -> n{};\n", input.slot, i);
  }
  return text + "}\n";
}

}  // namespace sheaf::plan
