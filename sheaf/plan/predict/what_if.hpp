#pragma once
// Changes of a step by rules of thumb, where there is no trace of it.

#include "sheaf/plan/graph/step_graph.hpp"
#include "sheaf/plan/trace/model_graph.hpp"

namespace sheaf::plan {

// How many times as much, or as fast. By a roofline: layers are bound by
// computing, what is between them by memory.
struct WhatIf {
  double compute = 1;
  double memory = 1;
  bool is_any() const { return compute != 1 || memory != 1; }
};

// Of a step whose marks tell their sides (mix_step); what is outside the
// model, as the optimiser, keeps its time but on another device.
StepGraph change_step(StepGraph step, const ModelGraph& graph,
                      const WhatIf& change);

}  // namespace sheaf::plan
