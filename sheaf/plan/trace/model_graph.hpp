#pragma once
// A model as the planner sees it: layers, whose precision can be chosen, and
// the operators around them, which follow. Casts are not in it: they come and
// go with precisions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/plan/trace/traced_model.hpp"

namespace sheaf::plan {

struct SlotInput {
  std::int32_t slot = -1;
  double elements = 0;
  bool operator==(const SlotInput&) const = default;
};

struct Slot {
  std::string name;   // "layer1.0.conv2", "aten::relu#3"
  std::string op;     // "aten::conv2d"
  std::string layer;  // "": it follows
  std::vector<SlotInput> inputs;
  Shape out_shape;
  double weight_elements = 0;
  std::optional<Precision> type;  // of its result in the trace
  bool has_cast = false;          // before it, in the trace
  std::int32_t depth = 0;         // layers on the longest path to it
};

struct ModelGraph {
  std::vector<Slot> slots;  // in the order of the forward pass
  // By node of the trace: its slot, and which of the slot's inputs it casts
  // (-1: it is the slot's own work).
  std::vector<std::int32_t> slot_of_node;
  std::vector<std::int32_t> cast_of_node;
  std::int32_t depth = 0;  // of the deepest layer
};

ModelGraph make_model_graph(const TracedModel& model);

// For programs and for Graphviz.
std::string json_of(const ModelGraph& graph);
std::string dot_of(const ModelGraph& graph);

}  // namespace sheaf::plan
