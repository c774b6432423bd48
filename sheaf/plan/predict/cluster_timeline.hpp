#pragma once
// A predicted step in detail: the timeline of each kind of worker and the
// critical path.

#include "sheaf/plan/graph/critical_path.hpp"
#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

struct ClusterTimeline {
  std::vector<StepGraph> steps;    // by kind
  std::vector<ReplayTimes> times;  // by kind
  std::vector<PathPiece> path;     // with kinds as ranks
};

// The step that predict_step() predicts.
ClusterTimeline predict_timeline(const Cluster& cluster,
                                 const std::vector<PrecisionPlan>& plans);

// By thread and mark of such a step: whether the mark is a cast.
using MarkFlags = std::vector<std::vector<bool>>;
MarkFlags find_casts(const StepGraph& mixed);

}  // namespace sheaf::plan
