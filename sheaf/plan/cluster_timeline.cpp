#include "sheaf/plan/cluster_timeline.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// As in predict_step(), whose steps a test compares.
constexpr int kMostTimelineSteps = 12;

void slow_down(StepGraph& step, double factor) {
  if (factor == 1) return;
  const auto scale = [&](std::int64_t& ns) {
    ns = static_cast<std::int64_t>(static_cast<double>(ns) * factor);
  };
  for (auto& thread : step.threads)
    for (ThreadMark& mark : thread) {
      scale(mark.cpu_ns);
      scale(mark.delay_ns);
    }
}

StepGraph timeline_step(const Cluster& cluster, const WorkerKind& worker,
                        const PrecisionPlan& plan) {
  StepGraph step = change_step(mix_step(*worker.recorded, plan, worker.casts),
                               worker.recorded->graph(), worker.change);
  slow_down(step, worker.slowdown);
  if (cluster.workers() == 1) return step;
  return with_exchange(std::move(step), worker.recorded->base(),
                       cluster.exchange);
}

std::vector<std::int64_t> exchange_times(const Cluster& cluster,
                                         const StepGraph& step) {
  std::vector<std::int64_t> times;
  if (cluster.workers() == 1) return times;
  for (const double bytes : collective_bytes(step))
    times.push_back(static_cast<std::int64_t>(
        1e3 * topo::predict_us(topo::Collective::kAllReduce,
                               topo::Algorithm::kAuto, cluster.machine,
                               cluster.placement, bytes)));
  return times;
}

// Until a step takes as long as the one before it.
void replay_steps(const Cluster& cluster, ClusterTimeline& timeline) {
  std::vector<const StepGraph*> steps;
  for (const StepGraph& step : timeline.steps) steps.push_back(&step);
  const auto times = exchange_times(cluster, timeline.steps[0]);
  const auto ns_of = [&](At number) { return times[number]; };
  std::vector<Replay> ranks(steps.size());
  std::int64_t before = 0;
  for (int step = 0; step < kMostTimelineSteps; ++step) {
    const auto together =
        Replay::run_together(ranks, steps, ns_of, &timeline.times);
    const std::int64_t now = together.step_ns[0];
    if (step > 0 && std::abs(now - before) * 1000 < before) break;
    before = now;
  }
  timeline.path = critical_path(steps, timeline.times);
}

// For each mark of a slot's side whether it is a cast, in the order in which
// mix_step() puts them.
std::vector<bool> cast_order(const SlotTypes& types, const StepProfile& source,
                             At side) {
  std::vector<bool> is_recorded(types.casts.size());
  std::vector<bool> flags;
  for (const Stretch& one : source.stretches) {
    if (one.part == kNone) continue;
    const Part& part = source.parts[static_cast<At>(one.part)];
    if (side_of(part) != side) continue;
    const auto cast = static_cast<At>(part.cast);
    if (part.cast != kNone && cast < types.casts.size()) {
      is_recorded[cast] = true;
      if (!types.casts[cast].is_needed) continue;
    }
    flags.insert(flags.end(), one.count, part.cast != kNone);
  }
  const bool is_backward = side % 2 != 0;
  if (is_backward && flags.empty()) return flags;
  At missing = 0;
  for (At i = 0; i < types.casts.size(); ++i)
    if (types.casts[i].is_needed && !is_recorded[i]) ++missing;
  flags.insert(is_backward ? flags.end() : flags.begin(), missing, true);
  return flags;
}

}  // namespace

ClusterTimeline predict_timeline(const Cluster& cluster,
                                 const std::vector<PrecisionPlan>& plans) {
  SHEAF_CHECK(plans.size() == cluster.kinds.size(), plans.size(), " plans for ",
              cluster.kinds.size(), " kinds of workers");
  ClusterTimeline timeline;
  for (At i = 0; i < plans.size(); ++i)
    timeline.steps.push_back(
        timeline_step(cluster, cluster.kinds[i], plans[i]));
  replay_steps(cluster, timeline);
  return timeline;
}

MarkFlags find_casts(const Recorded& recorded, const PrecisionPlan& plan,
                     const StepGraph& mixed) {
  MarkFlags is_cast;
  std::map<At, std::vector<std::pair<At, At>>> by_side;  // thread and mark
  for (At thread = 0; thread < mixed.threads.size(); ++thread) {
    is_cast.emplace_back(mixed.threads[thread].size());
    for (At i = 0; i < mixed.threads[thread].size(); ++i)
      if (const std::int32_t side = mixed.threads[thread][i].part;
          side != kNone)
        by_side[static_cast<At>(side)].push_back({thread, i});
  }
  const auto types = recorded.types_under(plan);
  for (const auto& [side, marks] : by_side) {
    const At slot = side / 2;
    const auto flags = cast_order(
        types[slot], recorded.source_of(slot, types[slot], plan), side);
    if (flags.size() != marks.size()) continue;
    for (At i = 0; i < marks.size(); ++i)
      is_cast[marks[i].first][marks[i].second] = flags[i];
  }
  return is_cast;
}

}  // namespace sheaf::plan
