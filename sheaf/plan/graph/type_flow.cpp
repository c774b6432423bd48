#include "sheaf/plan/graph/type_flow.hpp"

namespace sheaf::plan {
namespace {

// Different floating-point types are promoted to f32.
Precision promoted(Precision a, Precision b) {
  return a == b ? a : Precision::kF32;
}

}  // namespace

Precision result_of(Precision layer) {
  switch (layer) {
    case Precision::kF32:
    case Precision::kTf32:
      return Precision::kF32;
    case Precision::kBf16:
      return Precision::kBf16;
    case Precision::kF16:
    case Precision::kInt8:
      return Precision::kF16;
  }
  return Precision::kF32;
}

int bytes_of(Precision type) {
  return type == Precision::kInt8             ? 1
         : result_of(type) == Precision::kF32 ? 4
                                              : 2;
}

bool decides_type(const Slot& producer) {
  return producer.type.has_value() && !producer.out_shape.empty();
}

std::vector<bool> find_f32_only(const std::vector<const ModelGraph*>& graphs) {
  std::vector<bool> is_only(graphs[0]->slots.size());
  for (const ModelGraph* graph : graphs)
    for (std::size_t i = 0; i < graph->slots.size(); ++i) {
      const Slot& slot = graph->slots[i];
      if (!slot.layer.empty() || slot.type != Precision::kF32) continue;
      for (const SlotInput& input : slot.inputs) {
        const auto from =
            graph->slots[static_cast<std::size_t>(input.slot)].type;
        if (slot.has_cast && from && *from != Precision::kF32)
          is_only[i] = true;
      }
    }
  return is_only;
}

SlotTypes types_of(const ModelGraph& graph, std::size_t number,
                   bool is_f32_only, Precision choice,
                   const GivenTypes& given_by) {
  const auto& slots = graph.slots;
  const Slot& slot = slots[number];
  SlotTypes types;
  const bool is_layer = !slot.layer.empty();
  const bool is_assigned = is_layer || is_f32_only;
  bool is_first = true;
  if (is_layer) types.result = result_of(choice);
  for (const SlotInput& input : slot.inputs) {
    const auto from = static_cast<std::size_t>(input.slot);
    const Precision given = given_by(from);
    const bool decides = decides_type(slots[from]);
    if (!is_assigned && decides) {
      types.result = is_first ? given : promoted(types.result, given);
      is_first = false;
    }
    types.casts.push_back(
        {is_assigned && decides && given != types.result, given, types.result});
  }
  for (std::size_t i = 0; !is_assigned && i < types.casts.size(); ++i) {
    SlotTypes::Cast& cast = types.casts[i];
    cast.to = types.result;
    cast.is_promoted =
        decides_type(slots[static_cast<std::size_t>(slot.inputs[i].slot)]) &&
        cast.from != types.result;
  }
  return types;
}

std::vector<SlotTypes> flow_types(const ModelGraph& graph,
                                  const std::vector<bool>& is_f32_only,
                                  const PrecisionPlan& plan) {
  std::vector<SlotTypes> types;
  for (std::size_t i = 0; i < graph.slots.size(); ++i)
    types.push_back(
        types_of(graph, i, is_f32_only[i], plan.of(graph.slots[i].layer),
                 [&](std::size_t from) { return types[from].result; }));
  return types;
}

}  // namespace sheaf::plan
