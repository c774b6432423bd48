#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/plan/predict/mixed_step.hpp"

namespace sheaf::plan {
namespace {

constexpr Precision kHighestFirst[] = {Precision::kF32, Precision::kTf32,
                                       Precision::kBf16, Precision::kF16,
                                       Precision::kInt8};

}  // namespace

bool takes(const StepProfile& profile, std::size_t slot,
           const SlotTypes& types) {
  const auto& inputs = profile.graph.slots[slot].inputs;
  for (std::size_t i = 0; i < std::min(inputs.size(), types.casts.size());
       ++i) {
    const Slot& from =
        profile.graph.slots[static_cast<std::size_t>(inputs[i].slot)];
    if (decides_type(from) && from.type != types.casts[i].from) return false;
  }
  return true;
}

void check_one_model(const StepProfile& a, const StepProfile& b) {
  const auto& ours = a.graph.slots;
  const auto& theirs = b.graph.slots;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
    SHEAF_CHECK(
        ours[i].layer == theirs[i].layer &&
            (!ours[i].layer.empty() || ours[i].op == theirs[i].op),
        a.file, " and ", b.file, " are not traces of one model: at operator ",
        i, " the first has ", ours[i].name, ", the second ", theirs[i].name);
  SHEAF_CHECK(ours.size() == theirs.size(), a.file, " and ", b.file,
              " are not traces of one model: ", ours.size(), " operators and ",
              theirs.size());
}

namespace {

// Custom operators need not record their inputs and outputs; these are taken
// from another trace of the model. Casts then refer to the same inputs in all
// traces.
void complete(StepProfile& profile, const ModelGraph& model) {
  for (Part& part : profile.parts) {
    if (part.cast == kNone) continue;
    const auto slot = static_cast<std::size_t>(part.slot);
    const std::int32_t from = profile.graph.slots[slot]
                                  .inputs[static_cast<std::size_t>(part.cast)]
                                  .slot;
    const auto& inputs = model.slots[slot].inputs;
    const auto at =
        std::find_if(inputs.begin(), inputs.end(),
                     [&](const SlotInput& one) { return one.slot == from; });
    part.cast = at == inputs.end()
                    ? kNone
                    : static_cast<std::int32_t>(at - inputs.begin());
  }
  for (std::size_t i = 0; i < model.slots.size(); ++i) {
    Slot& slot = profile.graph.slots[i];
    slot.inputs = model.slots[i].inputs;
    slot.out_shape = model.slots[i].out_shape;
    if (!slot.layer.empty()) slot.type = result_of(profile.model.precision);
  }
}

}  // namespace

Recorded::Recorded(std::vector<StepProfile> profiles)
    : profiles_(std::move(profiles)) {
  SHEAF_CHECK(!profiles_.empty(), "no traces to plan with");
  for (const StepProfile& profile : profiles_) {
    SHEAF_CHECK(
        profile.model.is_uniform, profile.file,
        " is a trace of a run with a plan; give traces with one precision "
        "each (sheaf trace --precision)");
    const auto [at, is_new] =
        by_precision_.try_emplace(profile.model.precision, &profile);
    SHEAF_CHECK(is_new, profile.file, " and ", at->second->file,
                " are both traces in ", to_string(profile.model.precision),
                "; pass one trace for each precision");
  }
  for (const Precision one : kHighestFirst)
    if (has(one)) order_.push_back(by_precision_.at(one));
  for (StepProfile& profile : profiles_) {
    check_one_model(base(), profile);
    if (&profile != &base()) complete(profile, base().graph);
  }
  std::vector<const ModelGraph*> graphs;
  for (const StepProfile* profile : order_) graphs.push_back(&profile->graph);
  is_f32_only_ = find_f32_only(graphs);
  lifetimes_ = Lifetimes(order_);
  for (const StepProfile* profile : order_)
    for (std::size_t slot = 0; slot < graph().slots.size(); ++slot)
      results_[profile].push_back(Lifetimes::result_in(*profile, slot));
}

std::vector<Precision> Recorded::precisions() const {
  std::vector<Precision> list;
  for (const StepProfile* profile : order_)
    list.push_back(profile->model.precision);
  return list;
}

std::int64_t Recorded::loader_ns() const {
  std::int64_t least = 0;
  for (const StepProfile* one : order_) {
    const std::int64_t ns = one->step.loader_ns;
    if (ns > 0 && (least == 0 || ns < least)) least = ns;
  }
  return least;
}

const StepProfile& Recorded::frame_of(const PrecisionPlan& plan) const {
  for (const Slot& slot : graph().slots) {
    if (slot.layer.empty()) continue;
    const Precision one = plan.of(slot.layer);
    if (result_of(one) == Precision::kF16 && has(one)) return of(one);
  }
  return base();
}

const StepProfile& Recorded::of(Precision precision) const {
  const auto found = by_precision_.find(precision);
  SHEAF_CHECK(found != by_precision_.end(), "no trace with layers in ",
              to_string(precision),
              "; record one: sheaf trace CONFIG --precision ",
              to_string(precision));
  return *found->second;
}

void Recorded::check_layers(const PrecisionPlan& plan) const {
  std::vector<std::string_view> known;
  for (const Slot& slot : graph().slots)
    if (!slot.layer.empty()) known.push_back(slot.layer);
  for (const auto& [layer, precision] : plan.layers)
    SHEAF_CHECK(std::find(known.begin(), known.end(), layer) != known.end(),
                "the model has no layer '", layer, "'",
                did_you_mean(layer, known), "; sheaf plan graph ", base().file,
                " lists them");
}

std::vector<SlotTypes> Recorded::types_under(const PrecisionPlan& plan) const {
  return flow_types(graph(), is_f32_only_, plan);
}

const StepProfile& Recorded::source_of(std::size_t slot, const SlotTypes& types,
                                       const PrecisionPlan& plan) const {
  const Slot& one = graph().slots[slot];
  if (!one.layer.empty()) return of(plan.of(one.layer));
  const StepProfile* found = nullptr;
  const auto is_better = [&](const StepProfile& profile) {
    return found == nullptr || (found->is_stand_in && !profile.is_stand_in);
  };
  for (const bool must_take : {true, false}) {
    for (const StepProfile* profile : order_)
      if (profile->graph.slots[slot].type == types.result &&
          (!must_take || takes(*profile, slot, types)) && is_better(*profile))
        found = profile;
    if (found != nullptr) return *found;
  }
  return base();
}

}  // namespace sheaf::plan
