#pragma once
// Profiles of small models without a trace: the parts of the forward pass in
// order, then those of the backward pass in reverse.

#include <string>
#include <utility>
#include <vector>

#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/graph/type_flow.hpp"

namespace sheaf::plan {

// A slot with a result of 1000 elements in f32; `inputs` are slots with as many
// elements each.
inline Slot hand_slot(const std::string& op, const std::string& layer,
                      const std::vector<int>& inputs) {
  Slot slot;
  slot.name = layer.empty() ? op : layer;
  slot.op = op;
  slot.layer = layer;
  slot.out_shape = {10, 100};
  slot.type = Precision::kF32;
  for (const int input : inputs) slot.inputs.push_back({input, 1000});
  return slot;
}

inline StepProfile profile_of_slots(std::vector<Slot> slots) {
  StepProfile profile;
  profile.file = "trace.json";
  profile.graph.slots = std::move(slots);
  const auto count = static_cast<std::int32_t>(profile.graph.slots.size());
  for (std::int32_t i = 0; i < count; ++i) profile.parts.push_back({.slot = i});
  for (std::int32_t i = count; i-- > 0;)
    profile.parts.push_back({.slot = i, .is_backward = true});
  return profile;
}

// All layers in one precision.
inline void set_precision(StepProfile& profile, Precision precision) {
  profile.model.precision = precision;
  for (Slot& slot : profile.graph.slots) slot.type = result_of(precision);
}

// Parts of such a profile.
inline std::int32_t forward_part(std::int32_t slot) { return slot; }
inline std::int32_t backward_part(const StepProfile& profile,
                                  std::int32_t slot) {
  const auto count = static_cast<std::int32_t>(profile.graph.slots.size());
  return 2 * count - 1 - slot;
}

}  // namespace sheaf::plan
