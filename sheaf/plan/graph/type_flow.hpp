#pragma once
// Types of all results under a plan: layers output their assigned type, and the
// operators after them follow their inputs.

#include <functional>
#include <vector>

#include "sheaf/plan/trace/model_graph.hpp"

namespace sheaf::plan {

// The type of a layer's results.
Precision result_of(Precision layer);
int bytes_of(Precision type);

struct SlotTypes {
  Precision result = Precision::kF32;
  // By input: whether it is cast, and from which type to which.
  struct Cast {
    bool is_needed = false;
    Precision from = Precision::kF32;
    Precision to = Precision::kF32;
    bool is_promoted = false;  // promoted to f32 within the operator
  };
  std::vector<Cast> casts;
};

// Whether a result affects the type of operators that use it: integers,
// booleans and scalars do not.
bool decides_type(const Slot& producer);

// Which operators compute in f32 for any input, as shown by traces with layers
// of lower precision. `graphs` must be of one model.
std::vector<bool> find_f32_only(const std::vector<const ModelGraph*>& graphs);

// Types of one slot, whose layer computes in `choice`; `given(slot)` returns
// the type of a producer's result.
using GivenTypes = std::function<Precision(std::size_t slot)>;
SlotTypes types_of(const ModelGraph& graph, std::size_t slot, bool is_f32_only,
                   Precision choice, const GivenTypes& given);

std::vector<SlotTypes> flow_types(const ModelGraph& graph,
                                  const std::vector<bool>& is_f32_only,
                                  const PrecisionPlan& plan);

}  // namespace sheaf::plan
