#include "sheaf/plan/predict/cluster_timeline.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::plan {

ClusterTimeline predict_timeline(const Cluster& cluster,
                                 const std::vector<PrecisionPlan>& plans) {
  SHEAF_CHECK(plans.size() == cluster.kinds.size(), plans.size(), " plans for ",
              cluster.kinds.size(), " kinds of workers");
  ClusterTimeline timeline;
  for (std::size_t i = 0; i < plans.size(); ++i)
    timeline.steps.push_back(step_of(cluster, i, plans));
  wait_for_data(cluster, timeline.steps);
  replay_until_steady(cluster, timeline.steps, &timeline.times);
  std::vector<const StepGraph*> steps;
  for (const StepGraph& step : timeline.steps) steps.push_back(&step);
  timeline.path = critical_path(steps, timeline.times);
  return timeline;
}

MarkFlags find_casts(const StepGraph& mixed) {
  MarkFlags is_cast;
  for (const auto& thread : mixed.threads) {
    is_cast.emplace_back();
    for (const ThreadMark& mark : thread)
      is_cast.back().push_back(mark.is_cast);
  }
  return is_cast;
}

}  // namespace sheaf::plan
