#pragma once
// Traces of one model, each with one precision in all layers, and plans.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/plan/predict/mixed_step.hpp"
#include "tests/plan/trace/model_trace.hpp"

namespace sheaf::plan {

inline Recorded record(const std::vector<ModelOperator>& model,
                       const std::vector<Precision>& precisions,
                       double host_us = 2) {
  std::vector<StepProfile> profiles;
  for (const Precision one : precisions)
    profiles.push_back(
        read_profile(ModelTrace(model, uniform(one), true, host_us).write()));
  return Recorded(std::move(profiles));
}

// Layers that are not named are in f32.
inline PrecisionPlan plan_of(std::map<std::string, Precision> layers) {
  PrecisionPlan plan;
  plan.layers = std::move(layers);
  return plan;
}

}  // namespace sheaf::plan
