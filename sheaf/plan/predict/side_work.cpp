#include "sheaf/plan/predict/side_work.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// Includes the gap between kernels.
double mark_ns(const StepGraph& step, const ThreadMark& mark) {
  const std::int64_t work = work_ns(step, mark);
  if (!step.has_device || work == 0) return static_cast<double>(work);
  return static_cast<double>(work +
                             step.kernels[static_cast<At>(mark.kernel)].gap_ns);
}

// `slot_of(part)` is kNone for parts that are not counted.
template <class SlotOf>
std::vector<double> sum_by_slot(const StepGraph& step, std::size_t slots,
                                SlotOf slot_of) {
  std::vector<double> sums(slots);
  for (const auto& thread : step.threads)
    for (const ThreadMark& mark : thread) {
      const std::int32_t slot = mark.part == kNone ? kNone : slot_of(mark.part);
      if (slot != kNone) sums[static_cast<At>(slot)] += mark_ns(step, mark);
    }
  return sums;
}

}  // namespace

std::vector<double> slot_work_ns(const StepProfile& profile) {
  return sum_by_slot(profile.step, profile.graph.slots.size(),
                     [&](std::int32_t part) {
                       return profile.parts[static_cast<At>(part)].slot;
                     });
}

std::vector<double> mixed_work_ns(const StepGraph& mixed, std::size_t slots) {
  return sum_by_slot(mixed, slots, [](std::int32_t side) { return side / 2; });
}

SideWork::SideWork(const Recorded& recorded) {
  for (const Precision precision : recorded.precisions()) {
    const StepProfile& profile = recorded.of(precision);
    Sums& sums = sums_[&profile];
    const std::size_t slots = profile.graph.slots.size();
    sums.ns = sum_by_slot(profile.step, slots, [&](std::int32_t number) {
      const Part& part = profile.parts[static_cast<At>(number)];
      return part.cast == kNone ? part.slot : kNone;
    });
    sums.bytes.assign(slots, 0);
    for (const Allocation& one : profile.memory) {
      if (one.born < 0 || one.died < 0) continue;
      const Part& born = profile.parts[static_cast<At>(one.born)];
      const Part& died = profile.parts[static_cast<At>(one.died)];
      if (born.cast != kNone || born.is_backward || !died.is_backward) continue;
      sums.bytes[static_cast<At>(born.slot)] += static_cast<double>(one.bytes);
    }
  }
}

double SideWork::kept_bytes(const Recorded& recorded,
                            const PrecisionPlan& plan) const {
  double sum = 0;
  const auto types = recorded.types_under(plan);
  for (At slot = 0; slot < types.size(); ++slot) {
    sum += kept_bytes(recorded.source_of(slot, types[slot], plan), slot);
    for (At i = 0; i < types[slot].casts.size(); ++i)
      if (types[slot].casts[i].is_needed)
        sum += recorded.graph().slots[slot].inputs[i].elements *
               bytes_of(types[slot].casts[i].to);
  }
  return sum;
}

}  // namespace sheaf::plan
