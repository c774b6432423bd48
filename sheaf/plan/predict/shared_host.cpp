#include "sheaf/plan/predict/shared_host.hpp"

#include <algorithm>

namespace sheaf::plan {
namespace {

// Workers of a host share caches and memory bandwidth, even if they take turns
// on a core. This affects workers whose data exceeds the caches.
void share_memory(WorkerKind& kind, const topo::Contention& known,
                  double workers) {
  if (known.ranks < 2 || workers < 2) return;
  PrecisionPlan plan;
  plan.other = kind.recorded->precisions().front();
  if (mix_memory(*kind.recorded, plan).peak() < known.bytes) return;
  const double part = (workers - 1) / (known.ranks - 1);
  kind.change.memory /= 1 + (known.slowdown - 1) * part;
}

}  // namespace

// Workers without a GPU compute on cores, which they may share with other
// workers and with data loader threads.
void share_host(Cluster& cluster) {
  const bool is_known = !cluster.machine.hosts.empty();
  if (!is_known) return;
  const double cores = cluster.machine.hosts[0].cores;
  const double here = cluster.placement.ranks_per_host;
  // Each host has its proportional share of each kind of worker.
  double busy = 0, on_cores = 0;
  for (const WorkerKind& kind : cluster.kinds) {
    const TracedModel& model = kind.recorded->model();
    // On a busy machine a worker may have been given less than one core.
    busy += kind.count * std::max(1.0, model.busy_cores);
    if (model.device == "cpu") on_cores += kind.count;
  }
  const double part = here / cluster.workers();
  busy *= part;
  for (WorkerKind& kind : cluster.kinds) {
    if (kind.recorded->model().device != "cpu") continue;
    kind.slowdown = std::max(1.0, busy / cores) *
                    wait_for_slowest(kind.recorded->base(), kind.count);
    cluster.exchange.is_inline |= 2 * here > cores;
    share_memory(kind, cluster.machine.contention, part * on_cores);
  }
}

}  // namespace sheaf::plan
