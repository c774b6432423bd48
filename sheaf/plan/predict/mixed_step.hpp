#pragma once
// The step of a plan that was never run, out of steps that were: each layer's
// work from the trace in which it has that precision, with the casts that the
// plan needs.

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
  std::int64_t rest = 0;  // the optimiser
  std::int64_t peak() const;
};

// UsageError says where they differ.
void check_one_model(const StepProfile& a, const StepProfile& b);

// Whether a slot got in this trace what it gets under the plan.
bool takes(const StepProfile& profile, std::size_t slot,
           const SlotTypes& types);

// Traces of one model on one device, in each of which all layers have the same
// precision.
class Recorded {
 public:
  // UsageError where the traces are not of one model, or there are two of one
  // precision.
  explicit Recorded(std::vector<StepProfile> profiles);

  const ModelGraph& graph() const { return base().graph; }
  const TracedModel& model() const { return base().model; }
  // The trace with the highest precision.
  const StepProfile& base() const { return *order_[0]; }
  // The trace whose data loading and optimiser a run of this plan has: losses
  // are scaled where layers are in f16 or int8.
  const StepProfile& frame_of(const PrecisionPlan& plan) const;
  std::vector<Precision> precisions() const;  // highest first
  bool has(Precision precision) const {
    return by_precision_.contains(precision);
  }
  const StepProfile& of(Precision precision) const;
  // What loaders take for a batch, by the trace that tells the least; 0: none
  // does.
  std::int64_t loader_ns() const;
  const std::vector<bool>& is_f32_only() const { return is_f32_only_; }
  const Lifetimes& lifetimes() const { return lifetimes_; }
  // In the memory of one of these traces: the result of this slot.
  std::optional<std::size_t> result_in(const StepProfile& profile,
                                       std::size_t slot) const {
    return results_.at(&profile)[slot];
  }

  // UsageError for a layer that the model does not have.
  void check_layers(const PrecisionPlan& plan) const;
  std::vector<SlotTypes> types_under(const PrecisionPlan& plan) const;
  // The trace from which a slot's work is taken.
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

// Costs of casts: `known` ones, else as the traces have them.
CastCosts casts_of(const Recorded& recorded, const CastCosts& known = {});

StepGraph mix_step(const Recorded& recorded, const PrecisionPlan& plan,
                   const CastCosts& casts);

// Bytes at once in each phase, with what is there when a step begins.
PhaseMemory mix_memory(const Recorded& recorded, const PrecisionPlan& plan);

}  // namespace sheaf::plan
