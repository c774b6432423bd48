#pragma once
// A predicted step in full: what each kind of worker does when, and what
// decides the time.

#include "sheaf/plan/graph/critical_path.hpp"
#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::plan {

struct ClusterTimeline {
  std::vector<StepGraph> steps;    // by kind
  std::vector<ReplayTimes> times;  // by kind
  std::vector<PathPiece> path;     // ranks are kinds
};

// The step of predict_step().
ClusterTimeline predict_timeline(const Cluster& cluster,
                                 const std::vector<PrecisionPlan>& plans);

// By thread and mark of such a step: which are casts.
using MarkFlags = std::vector<std::vector<bool>>;
MarkFlags find_casts(const StepGraph& mixed);

}  // namespace sheaf::plan
