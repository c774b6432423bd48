#include "sheaf/plan/side_work.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

double mark_ns(const StepGraph& step, const ThreadMark& mark) {
  if (step.streams == 0) return static_cast<double>(mark.cpu_ns + mark.call_ns);
  if (mark.kernel == kNone) return 0;
  const KernelTask& task = step.kernels[static_cast<At>(mark.kernel)];
  return task.collective == kNone ? static_cast<double>(task.ns + task.gap_ns)
                                  : 0;
}

}  // namespace

SideWork::SideWork(const Recorded& recorded) {
  for (const Precision precision : recorded.precisions()) {
    const StepProfile& profile = recorded.of(precision);
    Sums& sums = sums_[&profile];
    sums.ns.assign(profile.graph.slots.size(), 0);
    sums.bytes = sums.ns;
    for (const auto& thread : profile.step.threads)
      for (const ThreadMark& mark : thread) {
        if (mark.part == kNone) continue;
        const Part& part = profile.parts[static_cast<At>(mark.part)];
        if (part.cast != kNone) continue;
        sums.ns[static_cast<At>(part.slot)] += mark_ns(profile.step, mark);
      }
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
