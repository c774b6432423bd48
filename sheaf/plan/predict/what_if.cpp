#include "sheaf/plan/predict/what_if.hpp"

namespace sheaf::plan {
namespace {

void scale(std::int64_t& ns, double factor) {
  ns = static_cast<std::int64_t>(static_cast<double>(ns) * factor);
}

double factor_of(const ThreadMark& mark, const ModelGraph& graph,
                 const WhatIf& change) {
  if (mark.part == kNone) return 1 / change.memory;
  const auto slot = static_cast<std::size_t>(mark.part / 2);
  const bool is_layer = !graph.slots[slot].layer.empty();
  return 1 / (is_layer ? change.compute : change.memory);
}

}  // namespace

// Without a device the threads do the work.
StepGraph change_step(StepGraph step, const ModelGraph& graph,
                      const WhatIf& change) {
  if (!change.is_any()) return step;
  for (auto& thread : step.threads)
    for (ThreadMark& mark : thread) {
      const double factor = factor_of(mark, graph, change);
      if (!step.has_device)
        scale(mark.cpu_ns, factor);
      else if (mark.kernel != kNone)
        scale(step.kernels[static_cast<std::size_t>(mark.kernel)].ns, factor);
    }
  return step;
}

}  // namespace sheaf::plan
