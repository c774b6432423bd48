#pragma once
// The types of all results under a plan: layers compute as they are told, the
// operators behind them take what comes.

#include <functional>
#include <vector>

#include "sheaf/plan/trace/model_graph.hpp"

namespace sheaf::plan {

// What a layer's results are made of.
Precision result_of(Precision layer);
int bytes_of(Precision type);

struct SlotTypes {
  Precision result = Precision::kF32;
  // By input: 0 where it is taken as it comes, else it is cast from `from`.
  struct Cast {
    bool is_needed = false;
    Precision from = Precision::kF32;
    Precision to = Precision::kF32;
    bool is_promoted = false;  // the operator takes it as it is, and gives f32
  };
  std::vector<Cast> casts;
};

// Whether a result decides on the type of what is made of it: whole numbers,
// truth values and single numbers do not.
bool decides_type(const Slot& producer);

// Which operators compute in f32 whatever comes, as traces with layers of
// lower precision show; traces of one model.
std::vector<bool> find_f32_only(const std::vector<const ModelGraph*>& graphs);

// Of one slot, whose layer computes in `choice`; `given(slot)` is the type of a
// producer's result.
using GivenTypes = std::function<Precision(std::size_t slot)>;
SlotTypes types_of(const ModelGraph& graph, std::size_t slot, bool is_f32_only,
                   Precision choice, const GivenTypes& given);

std::vector<SlotTypes> flow_types(const ModelGraph& graph,
                                  const std::vector<bool>& is_f32_only,
                                  const PrecisionPlan& plan);

}  // namespace sheaf::plan
