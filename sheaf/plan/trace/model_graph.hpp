#pragma once
// The model as seen by the planner: layers, whose precision can be chosen, and
// the operators between them, whose types follow. Casts are not part of it,
// because they depend on the precisions.

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
  std::string layer;  // "": its type follows from its inputs
  std::vector<SlotInput> inputs;
  Shape out_shape;
  double weight_elements = 0;
  std::optional<Precision> type;  // of its result in the trace
  bool has_cast = false;          // cast before it in the trace
  std::int32_t depth = 0;         // number of layers on the longest path to it
};

struct ModelGraph {
  std::vector<Slot> slots;  // in forward order
  // By node of the trace: its slot, and the input of the slot that it casts
  // (-1: it is the slot's own work).
  std::vector<std::int32_t> slot_of_node;
  std::vector<std::int32_t> cast_of_node;
  std::int32_t depth = 0;  // depth of the deepest layer
};

ModelGraph make_model_graph(const TracedModel& model);

// For programs, and for Graphviz.
std::string json_of(const ModelGraph& graph);
std::string dot_of(const ModelGraph& graph);

}  // namespace sheaf::plan
