// Peak memory of a plan by liveness analysis: every allocation in the traces
// lives from the part that allocated it to the part that freed it.
#include <algorithm>
#include <map>

#include "sheaf/plan/predict/mixed_step.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// Changes of memory by a slot's forward or backward work, in order; then memory
// of other slots that is freed meanwhile, at a moment that the traces do not
// record.
struct SideMemory {
  std::vector<std::int64_t> changes;
  std::int64_t freed_at_end = 0;
};

class MemoryMixer {
 public:
  MemoryMixer(const Recorded& recorded, const PrecisionPlan& plan)
      : recorded_(recorded),
        frame_(recorded.frame_of(plan)),
        types_(recorded.types_under(plan)) {
    for (At slot = 0; slot < types_.size(); ++slot)
      sources_.push_back(&recorded.source_of(slot, types_[slot], plan));
    sides_.resize(2 * types_.size());
  }

  PhaseMemory mix() {
    for (const Precision precision : recorded_.precisions())
      add_profile(recorded_.of(precision));
    add_casts();
    return follow();
  }

 private:
  void add_profile(const StepProfile& profile) {
    const auto results = results_of(profile);
    for (const MemoryEvent& event : profile.memory_events) {
      const Allocation& one = profile.memory[event.allocation];
      const auto result = results.find(event.allocation);
      if (result != results.end()) {
        if (!event.is_end) add_result(result->second, one.bytes);
        continue;
      }
      if (one.born == kBeforeAll || one.born == kAfterAll) {
        if (&profile == &frame_) add_outer(profile, one, event);
        continue;
      }
      const Part& born = profile.parts[static_cast<At>(one.born)];
      if (sources_[static_cast<At>(born.slot)] != &profile) continue;
      if (born.cast != kNone && !is_needed(born)) continue;
      if (!event.is_end)
        sides_[side_of(born)].changes.push_back(one.bytes);
      else if (one.died != kAfterAll)
        give_back(profile, one);
    }
  }
  // The results of slots whose work is taken from this profile, by allocation.
  std::map<At, At> results_of(const StepProfile& profile) const {
    std::map<At, At> results;
    for (At slot = 0; slot < sources_.size(); ++slot)
      if (sources_[slot] == &profile &&
          recorded_.lifetimes().root(slot) == static_cast<std::int32_t>(slot))
        if (const auto found = recorded_.result_in(profile, slot))
          results[*found] = slot;
    return results;
  }
  // A result lives as long as the plan needs it, regardless of the trace.
  void add_result(At slot, std::int64_t bytes) {
    sides_[2 * slot].changes.push_back(bytes);
    sides_[recorded_.lifetimes().last_side(slot, types_)].freed_at_end += bytes;
  }
  void give_back(const StepProfile& profile, const Allocation& one) {
    const Part& died = profile.parts[static_cast<At>(one.died)];
    SideMemory& side = sides_[side_of(died)];
    if (sources_[static_cast<At>(died.slot)] == &profile)
      side.changes.push_back(-one.bytes);
    else
      side.freed_at_end += one.bytes;
  }
  bool is_needed(const Part& part) const {
    const auto& casts = types_[static_cast<At>(part.slot)].casts;
    return static_cast<At>(part.cast) >= casts.size() ||
           casts[static_cast<At>(part.cast)].is_needed;
  }
  // Memory allocated before the step or by the optimizer.
  void add_outer(const StepProfile& profile, const Allocation& one,
                 const MemoryEvent& event) {
    if (one.born == kAfterAll) {
      rest_ += event.is_end ? -one.bytes : one.bytes;
      rest_peak_ = std::max(rest_peak_, rest_);
    } else if (one.died != kAfterAll) {
      give_back(profile, one);
    }
  }

  // The input that a layer computes with is kept for its backward pass.
  void add_casts() {
    for (At slot = 0; slot < types_.size(); ++slot)
      for (At i = 0; i < types_[slot].casts.size(); ++i) {
        const SlotTypes::Cast& cast = types_[slot].casts[i];
        if (!cast.is_needed || has_cast(slot, i)) continue;
        const auto bytes = static_cast<std::int64_t>(
            recorded_.graph().slots[slot].inputs[i].elements *
            bytes_of(cast.to));
        auto& changes = sides_[2 * slot].changes;
        changes.insert(changes.begin(), bytes);
        const At last =
            recorded_.lifetimes().lets_go(slot, i) ? 2 * slot : 2 * slot + 1;
        sides_[last].freed_at_end += bytes;
      }
  }
  bool has_cast(At slot, At input) const {
    for (const Part& part : sources_[slot]->parts)
      if (part.slot == static_cast<std::int32_t>(slot) && !part.is_backward &&
          part.cast == static_cast<std::int32_t>(input))
        return true;
    return false;
  }

  PhaseMemory follow() const {
    PhaseMemory memory;
    std::int64_t now = frame_.model.bytes_before;
    std::vector<bool> is_done(sides_.size());
    for (const Part& part : recorded_.base().parts) {
      const At side = side_of(part);
      if (is_done[side]) continue;
      is_done[side] = true;
      std::int64_t& peak = part.is_backward ? memory.backward : memory.forward;
      peak = std::max(peak, now);
      for (const std::int64_t change : sides_[side].changes)
        peak = std::max(peak, now += change);
      now -= sides_[side].freed_at_end;
    }
    memory.rest = now + rest_peak_;
    return memory;
  }

  const Recorded& recorded_;
  const StepProfile& frame_;
  std::vector<SlotTypes> types_;
  std::vector<const StepProfile*> sources_;
  std::vector<SideMemory> sides_;
  std::int64_t rest_ = 0;
  std::int64_t rest_peak_ = 0;
};

}  // namespace

std::int64_t PhaseMemory::peak() const {
  return std::max({forward, backward, rest});
}

PhaseMemory mix_memory(const Recorded& recorded, const PrecisionPlan& plan) {
  return MemoryMixer(recorded, plan).mix();
}

}  // namespace sheaf::plan
