#include "sheaf/plan/predict/mixed_step.hpp"

#include <algorithm>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// The stretches of a profile by slot, forward and backward.
std::vector<std::vector<const Stretch*>> by_side(const StepProfile& profile) {
  std::vector<std::vector<const Stretch*>> list(2 * profile.graph.slots.size());
  for (const Stretch& one : profile.stretches)
    if (one.part != kNone)
      list[side_of(profile.parts[static_cast<At>(one.part)])].push_back(&one);
  return list;
}

class Mixer {
 public:
  Mixer(const Recorded& recorded, const PrecisionPlan& plan,
        const CastCosts& casts)
      : recorded_(recorded), base_(recorded.frame_of(plan)), casts_(casts) {
    types_ = recorded.types_under(plan);
    for (At slot = 0; slot < types_.size(); ++slot)
      sources_.push_back(&recorded.source_of(slot, types_[slot], plan));
    for (const StepProfile* source : sources_)
      if (!sides_.contains(source)) sides_[source] = by_side(*source);
    is_done_.assign(2 * types_.size(), false);
  }

  StepGraph mix() {
    const StepGraph& from = base_.step;
    result_.threads.resize(from.threads.size());
    new_mark_.resize(from.threads.size());
    for (At i = 0; i < from.threads.size(); ++i)
      new_mark_[i].assign(from.threads[i].size(), 0);
    result_.stream_names = from.stream_names;
    result_.has_device = from.has_device;
    result_.collectives = from.collectives;
    result_.measured_ns = from.measured_ns;
    result_.loader_ns = recorded_.loader_ns();
    for (const Stretch& one : base_.stretches) add(one);
    result_.streams = result_.stream_names.size();
    turn_references();
    return std::move(result_);
  }

 private:
  void add(const Stretch& one) {
    auto& marks = result_.threads[one.thread];
    if (one.part == kNone) {
      for (At i = one.first; i < one.first + one.count; ++i) {
        new_mark_[one.thread][i] = static_cast<std::int32_t>(marks.size());
        copy(base_, base_.step.threads[one.thread][i], one.thread, kNone);
      }
      return;
    }
    const At side = side_of(base_.parts[static_cast<At>(one.part)]);
    if (!is_done_[side]) add_side(side, one.thread);
    is_done_[side] = true;
    const auto last = static_cast<std::int32_t>(marks.size()) - 1;
    for (At i = one.first; i < one.first + one.count; ++i)
      new_mark_[one.thread][i] = std::max(last, 0);
  }

  // Adds the forward or backward work of a slot and the casts that it needs.
  void add_side(At side, std::uint32_t thread) {
    const At slot = side / 2;
    const bool is_backward = side % 2 != 0;
    const StepProfile& source = *sources_[slot];
    std::vector<bool> has_cast(types_[slot].casts.size());
    const auto& stretches = sides_.at(&source)[side];
    for (const Stretch* one : stretches) {
      const std::int32_t cast = source.parts[static_cast<At>(one->part)].cast;
      if (cast != kNone && static_cast<At>(cast) < has_cast.size())
        has_cast[static_cast<At>(cast)] = true;
    }
    if (!is_backward) add_missing(slot, has_cast, is_backward, thread);
    for (const Stretch* one : stretches) {
      const std::int32_t cast = source.parts[static_cast<At>(one->part)].cast;
      if (cast != kNone && !is_needed(slot, cast)) continue;
      for (At i = one->first; i < one->first + one->count; ++i)
        copy(source, source.step.threads[one->thread][i], thread,
             static_cast<std::int32_t>(side));
    }
    if (is_backward && !stretches.empty())
      add_missing(slot, has_cast, is_backward, thread);
    if (!takes(source, slot, types_[slot]))
      add_promotions(slot, is_backward, thread);
  }
  bool is_needed(At slot, std::int32_t cast) const {
    const auto at = static_cast<At>(cast);
    return at >= types_[slot].casts.size() || types_[slot].casts[at].is_needed;
  }

  void add_missing(At slot, const std::vector<bool>& has_cast, bool is_backward,
                   std::uint32_t thread) {
    const auto side =
        static_cast<std::int32_t>(2 * slot + (is_backward ? 1 : 0));
    for (At i = 0; i < has_cast.size(); ++i) {
      const SlotTypes::Cast& cast = types_[slot].casts[i];
      if (!cast.is_needed || has_cast[i]) continue;
      const double elements = recorded_.graph().slots[slot].inputs[i].elements;
      const CastCost cost = is_backward ? casts_.of(cast.to, cast.from)
                                        : casts_.of(cast.from, cast.to);
      add_cast(static_cast<std::int64_t>(cost.of(elements)), thread, side);
    }
  }
  // Mixed input types are promoted to f32: forward within the operator, which
  // takes longer, backward by casts.
  void add_promotions(At slot, bool is_backward, std::uint32_t thread) {
    const Slot& one = recorded_.graph().slots[slot];
    for (At i = 0; i < types_[slot].casts.size(); ++i) {
      const SlotTypes::Cast& cast = types_[slot].casts[i];
      if (!cast.is_promoted) continue;
      const double elements = one.inputs[i].elements;
      const auto side =
          static_cast<std::int32_t>(2 * slot + (is_backward ? 1 : 0));
      if (is_backward)
        add_cast(static_cast<std::int64_t>(
                     casts_.of(cast.to, cast.from).of(elements)),
                 thread, side);
      else if (!result_.threads[thread].empty())
        lengthen(casts_.of(cast.from, cast.to).ns_per_element * elements / 2,
                 thread);
    }
  }
  // Lengthens the last work that the thread has done or launched.
  void lengthen(double ns, std::uint32_t thread) {
    auto& marks = result_.threads[thread];
    for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark) {
      if (result_.has_device && mark->kernel == kNone) continue;
      std::int64_t& time =
          result_.has_device ? result_.kernels[static_cast<At>(mark->kernel)].ns
                             : mark->cpu_ns;
      time += static_cast<std::int64_t>(ns);
      return;
    }
  }
  void add_cast(std::int64_t ns, std::uint32_t thread, std::int32_t side) {
    ThreadMark mark;
    mark.part = side;
    mark.is_cast = true;
    if (!result_.has_device) {
      mark.cpu_ns = ns;
      result_.threads[thread].push_back(mark);
      return;
    }
    mark.kind = ThreadMark::Kind::kLaunch;
    mark.cpu_ns = static_cast<std::int64_t>(casts_.host_ns) - kLaunchNs;
    mark.call_ns = kLaunchNs;
    mark.kernel = static_cast<std::int32_t>(result_.kernels.size());
    result_.threads[thread].push_back(mark);
    KernelTask task;
    task.ns = ns;
    task.gap_ns = kCastGapNs;
    task.latency_ns = 5000;
    result_.kernels.push_back(task);
  }

  void copy(const StepProfile& from, ThreadMark mark, std::uint32_t thread,
            std::int32_t side) {
    mark.is_cast = mark.part != kNone &&
                   from.parts[static_cast<At>(mark.part)].cast != kNone;
    mark.part = side;
    if (mark.kernel != kNone) {
      const auto old = static_cast<At>(mark.kernel);
      mark.kernel = static_cast<std::int32_t>(result_.kernels.size());
      KernelTask task = from.step.kernels[old];
      task.stream = stream_named(from.step.stream_names[task.stream]);
      if (!task.after.empty())
        references_.push_back({mark.kernel, &from, std::move(task.after)});
      task.after.clear();
      result_.kernels.push_back(std::move(task));
      new_kernel_[&from].resize(from.step.kernels.size(), kNone);
      new_kernel_[&from][old] = mark.kernel;
    }
    if (&from != &base_) mark.other_thread = kNone;
    result_.threads[thread].push_back(mark);
  }

  std::uint32_t stream_named(const std::string& name) {
    auto& names = result_.stream_names;
    const auto found = std::find(names.begin(), names.end(), name);
    const auto place = static_cast<std::uint32_t>(found - names.begin());
    if (found == names.end()) names.push_back(name);
    return place;
  }

  // Updates references to marks and kernels of the source traces. References to
  // kernels that are not part of this step are dropped.
  void turn_references() {
    for (auto& thread : result_.threads)
      for (ThreadMark& mark : thread)
        if (mark.other_thread != kNone)
          mark.other_mark = new_mark_[static_cast<At>(mark.other_thread)]
                                     [static_cast<At>(mark.other_mark)];
    for (const Reference& one : references_)
      for (const std::int32_t old : one.after) {
        const auto& known = new_kernel_[one.from];
        const std::int32_t now = known[static_cast<At>(old)];
        if (now != kNone)
          result_.kernels[static_cast<At>(one.kernel)].after.push_back(now);
      }
  }

  static constexpr std::int64_t kLaunchNs = 4000;
  struct Reference {
    std::int32_t kernel;
    const StepProfile* from;
    std::vector<std::int32_t> after;
  };
  const Recorded& recorded_;
  const StepProfile& base_;
  const CastCosts& casts_;
  std::vector<SlotTypes> types_;
  std::vector<const StepProfile*> sources_;
  std::map<const StepProfile*, std::vector<std::vector<const Stretch*>>> sides_;
  std::vector<bool> is_done_;
  StepGraph result_;
  std::vector<std::vector<std::int32_t>> new_mark_;
  std::map<const StepProfile*, std::vector<std::int32_t>> new_kernel_;
  std::vector<Reference> references_;
};

// Sum over the marks of a stretch.
template <class Get>
double sum_of(const StepProfile& profile, const Stretch& one, Get get) {
  double sum = 0;
  const auto& marks = profile.step.threads[one.thread];
  for (At i = one.first; i < one.first + one.count; ++i)
    sum += static_cast<double>(get(marks[i]));
  return sum;
}

// For fewer elements the time of a cast is dominated by its launch.
constexpr double kTellingElements = 1e5;

// Cost of casts in a trace: a fitted line if there are several sizes, else
// proportional to the largest.
std::optional<CastCost> cost_of(const std::vector<CastSample>& samples) {
  const auto largest = *std::max_element(
      samples.begin(), samples.end(),
      [](const auto& a, const auto& b) { return a.elements < b.elements; });
  if (largest.elements < kTellingElements) return std::nullopt;
  try {
    return fit_cast(samples);
  } catch (const UsageError&) {
    return CastCost{largest.ns / largest.elements, 0};
  }
}

}  // namespace

CastCosts casts_of(const Recorded& recorded, const CastCosts& known) {
  CastCosts costs = known;
  std::map<std::pair<Precision, Precision>, std::vector<CastSample>> samples;
  std::vector<double> hosts;
  for (const Precision precision : recorded.precisions()) {
    const StepProfile& profile = recorded.of(precision);
    for (const Stretch& one : profile.stretches) {
      if (one.part == kNone) continue;
      const Part& part = profile.parts[static_cast<At>(one.part)];
      if (part.cast == kNone || part.is_backward) continue;
      const Slot& slot = profile.graph.slots[static_cast<At>(part.slot)];
      const SlotInput& input = slot.inputs[static_cast<At>(part.cast)];
      const auto from = profile.graph.slots[static_cast<At>(input.slot)].type;
      const Precision to =
          slot.layer.empty() ? Precision::kF32 : result_of(precision);
      if (!from || *from == to || input.elements <= 0) continue;
      const auto work = [&](const ThreadMark& mark) {
        return work_ns(profile.step, mark);
      };
      const auto host = [](const ThreadMark& mark) {
        return mark.cpu_ns + mark.call_ns;
      };
      samples[{*from, to}].push_back(
          {input.elements, sum_of(profile, one, work)});
      hosts.push_back(sum_of(profile, one, host));
    }
  }
  for (const auto& [pair, list] : samples)
    if (const auto cost = cost_of(list); cost && !costs.pairs.contains(pair))
      costs.pairs[pair] = *cost;
  costs.has_device = recorded.base().step.has_device;
  if (!hosts.empty()) costs.host_ns = median(hosts);
  return costs;
}

StepGraph mix_step(const Recorded& recorded, const PrecisionPlan& plan,
                   const CastCosts& casts) {
  return Mixer(recorded, plan, casts).mix();
}

}  // namespace sheaf::plan
