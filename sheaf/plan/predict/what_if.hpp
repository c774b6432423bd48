#pragma once
// Hypothetical changes of a step, used if there is no trace of the device.

#include "sheaf/plan/graph/step_graph.hpp"
#include "sheaf/plan/trace/model_graph.hpp"

namespace sheaf::plan {

// Factors on compute speed and memory bandwidth. As in a roofline model, layers
// are bound by compute, and the work between them by memory.
struct WhatIf {
  double compute = 1;
  double memory = 1;
  bool is_any() const { return compute != 1 || memory != 1; }
};

// For a step whose marks identify sides (mix_step). Work outside the model,
// such as the optimizer, scales with memory bandwidth.
StepGraph change_step(StepGraph step, const ModelGraph& graph,
                      const WhatIf& change);

}  // namespace sheaf::plan
