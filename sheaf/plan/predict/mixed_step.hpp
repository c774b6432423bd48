#pragma once
// Composes the step of a plan that was never run from recorded steps: the work
// of each layer is taken from the trace with that layer's precision, and the
// casts that the plan needs are added.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/plan/graph/lifetimes.hpp"
#include "sheaf/plan/graph/step_profile.hpp"
#include "sheaf/plan/graph/type_flow.hpp"
#include "sheaf/plan/predict/cast_cost.hpp"

namespace sheaf::plan {

struct PhaseMemory {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t rest = 0;  // during the optimizer step
  std::int64_t peak() const;
};

// Throws a UsageError that describes the first difference.
void check_one_model(const StepProfile& a, const StepProfile& b);

// Whether a slot had the same input types in this trace as under the plan.
bool takes(const StepProfile& profile, std::size_t slot,
           const SlotTypes& types);

// Traces of one model on one device, each with the same precision in all
// layers. Owns the traces.
class Recorded {
 public:
  // Throws UsageError if the traces are not of one model, or if two have the
  // same precision.
  explicit Recorded(std::vector<StepProfile> profiles);

  const ModelGraph& graph() const { return base().graph; }
  const TracedModel& model() const { return base().model; }
  // The trace with the highest precision.
  const StepProfile& base() const { return *order_[0]; }
  // The trace whose data loading and optimizer represent this plan: losses are
  // scaled if layers are in f16 or int8.
  const StepProfile& frame_of(const PrecisionPlan& plan) const;
  std::vector<Precision> precisions() const;  // highest first
  bool has(Precision precision) const {
    return by_precision_.contains(precision);
  }
  const StepProfile& of(Precision precision) const;
  // Time of the loader for a batch, the minimum over the traces that record it;
  // 0: none does.
  std::int64_t loader_ns() const;
  const std::vector<bool>& is_f32_only() const { return is_f32_only_; }
  const Lifetimes& lifetimes() const { return lifetimes_; }
  // The allocation of this slot's result in one of these traces.
  std::optional<std::size_t> result_in(const StepProfile& profile,
                                       std::size_t slot) const {
    return results_.at(&profile)[slot];
  }

  // Throws UsageError for a layer that the model does not have.
  void check_layers(const PrecisionPlan& plan) const;
  std::vector<SlotTypes> types_under(const PrecisionPlan& plan) const;
  // The trace from which a slot's work is taken. Throws UsageError if there is
  // none with the layer's precision.
  const StepProfile& source_of(std::size_t slot, const SlotTypes& types,
                               const PrecisionPlan& plan) const;

 private:
  std::vector<StepProfile> profiles_;
  std::vector<const StepProfile*> order_;
  std::map<Precision, const StepProfile*> by_precision_;
  std::vector<bool> is_f32_only_;
  Lifetimes lifetimes_;
  std::map<const StepProfile*, std::vector<std::optional<std::size_t>>>
      results_;
};

// Costs of casts: `known` ones, otherwise as measured in the traces.
CastCosts casts_of(const Recorded& recorded, const CastCosts& known = {});

StepGraph mix_step(const Recorded& recorded, const PrecisionPlan& plan,
                   const CastCosts& casts);

// Peak bytes in each phase, including memory allocated before the step.
PhaseMemory mix_memory(const Recorded& recorded, const PrecisionPlan& plan);

}  // namespace sheaf::plan
