#include "sheaf/plan/predict/cluster.hpp"

#include <algorithm>
#include <cstdlib>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

constexpr int kMostSteps = 12;
// For wait_for_data(): an added wait may shift the work after it.
constexpr int kMostTurns = 3;

StepGraph slowed(StepGraph step, double factor) {
  if (factor == 1) return step;
  for (auto& thread : step.threads)
    for (ThreadMark& mark : thread) {
      mark.cpu_ns =
          static_cast<std::int64_t>(static_cast<double>(mark.cpu_ns) * factor);
      mark.delay_ns = static_cast<std::int64_t>(
          static_cast<double>(mark.delay_ns) * factor);
    }
  return step;
}

bool are_same(const PrecisionPlan& a, const PrecisionPlan& b) {
  return a.other == b.other && a.layers == b.layers;
}

void mix_steps(const Cluster& cluster, const std::vector<PrecisionPlan>& plans,
               MixedSteps& steps) {
  const std::size_t had = steps.plans.size();
  steps.plans.resize(plans.size());
  steps.routes.resize(plans.size());
  steps.graphs.resize(plans.size());
  steps.memory.resize(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const ExchangePlan routes = exchange_of(cluster, i, plans).routes;
    if (i < had && are_same(steps.plans[i], plans[i]) &&
        steps.routes[i] == routes)
      continue;
    steps.plans[i] = plans[i];
    steps.routes[i] = routes;
    steps.graphs[i] = step_of(cluster, i, plans);
    steps.memory[i] = mix_memory(*cluster.kinds[i].recorded, plans[i]);
  }
}

// Times of collectives as recorded by one rank, including its waiting.
std::vector<std::int64_t> traced_times(const StepGraph& step) {
  std::vector<std::int64_t> times(step.collectives.size());
  for (const KernelTask& task : step.kernels)
    if (task.collective != kNone)
      times[static_cast<std::size_t>(task.collective)] = task.ns;
  return times;
}

void scale(std::int64_t& ns, double factor) {
  ns = static_cast<std::int64_t>(static_cast<double>(ns) * factor);
}

double factor_of(const ThreadMark& mark, const ModelGraph& graph,
                 const WhatIf& change) {
  if (mark.part == kNone) return 1 / change.memory;
  const auto slot = static_cast<std::size_t>(mark.part / 2);
  const bool is_layer = !graph.slots[slot].layer.empty();
  return 1 / (is_layer ? change.compute : change.memory);
}

}  // namespace

// Without a device the threads do the work.
StepGraph change_step(StepGraph step, const ModelGraph& graph,
                      const WhatIf& change) {
  if (!change.is_any()) return step;
  for (auto& thread : step.threads)
    for (ThreadMark& mark : thread) {
      const double factor = factor_of(mark, graph, change);
      if (!step.has_device)
        scale(mark.cpu_ns, factor);
      else if (mark.kernel != kNone)
        scale(step.kernels[static_cast<std::size_t>(mark.kernel)].ns, factor);
    }
  return step;
}

int Cluster::workers() const {
  int sum = 0;
  for (const WorkerKind& kind : kinds) sum += kind.count;
  return sum;
}

StepGraph step_alone(const Cluster& cluster, std::size_t kind,
                     const PrecisionPlan& plan) {
  const WorkerKind& worker = cluster.kinds[kind];
  StepGraph step = mix_step(*worker.recorded, plan, worker.casts);
  step = change_step(std::move(step), worker.recorded->graph(), worker.change);
  return slowed(std::move(step), worker.slowdown);
}

ExchangeOptions exchange_of(const Cluster& cluster, std::size_t kind,
                            const std::vector<PrecisionPlan>& plans) {
  ExchangeOptions exchange = cluster.exchange;
  const auto rows_of = [](const WorkerKind& worker) {
    return static_cast<double>(worker.recorded->model().batch);
  };
  double rows = 0;
  for (const WorkerKind& one : cluster.kinds) rows += one.count * rows_of(one);
  const WorkerKind& worker = cluster.kinds[kind];
  exchange.workers = cluster.workers();
  exchange.hosts = cluster.placement.hosts;
  exchange.is_on_devices = std::all_of(
      cluster.kinds.begin(), cluster.kinds.end(), [](const WorkerKind& one) {
        return one.recorded->model().device != "cpu";
      });
  exchange.shares =
      rows_of(worker) > 0 ? rows / rows_of(worker) : exchange.workers;
  exchange.routes =
      routes_under(exchange.routes, worker.recorded->graph(), plans);
  return exchange;
}

StepGraph step_of(const Cluster& cluster, std::size_t kind,
                  const std::vector<PrecisionPlan>& plans) {
  StepGraph step = step_alone(cluster, kind, plans[kind]);
  if (cluster.workers() == 1) return step;
  return with_exchange(std::move(step), cluster.kinds[kind].recorded->base(),
                       exchange_of(cluster, kind, plans));
}

std::vector<std::int64_t> collective_times(const Cluster& cluster,
                                           const StepGraph& step) {
  std::vector<std::int64_t> times;
  const auto bytes = collective_bytes(step);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto kind = step.collectives[i].name == "all_gather"
                          ? topo::Collective::kAllGather
                          : topo::Collective::kAllReduce;
    times.push_back(static_cast<std::int64_t>(
        1e3 * topo::predict_us(kind, topo::Algorithm::kAuto, cluster.machine,
                               cluster.placement, bytes[i])));
  }
  return times;
}

Replay::Together replay_until_steady(const Cluster& cluster,
                                     const std::vector<StepGraph>& graphs,
                                     std::vector<ReplayTimes>* times) {
  std::vector<const StepGraph*> steps;
  for (const StepGraph& graph : graphs) steps.push_back(&graph);
  const std::vector<std::int64_t> ns =
      cluster.workers() > 1 ? collective_times(cluster, graphs[0])
                            : traced_times(graphs[0]);
  const auto ns_of = [&](std::size_t number) { return ns[number]; };
  std::vector<Replay> ranks(steps.size());
  auto together = Replay::run_together(ranks, steps, ns_of, times);
  for (int step = 1; step < kMostSteps; ++step) {
    const std::int64_t before = together.step_ns[0];
    together = Replay::run_together(ranks, steps, ns_of, times);
    if (std::abs(together.step_ns[0] - before) * 1000 < before) break;
  }
  return together;
}

ClusterStep predict_step(const Cluster& cluster,
                         const std::vector<PrecisionPlan>& plans,
                         MixedSteps* known) {
  SHEAF_CHECK(plans.size() == cluster.kinds.size(), plans.size(), " plans for ",
              cluster.kinds.size(), " kinds of workers");
  MixedSteps own;
  MixedSteps& steps = known == nullptr ? own : *known;
  mix_steps(cluster, plans, steps);
  ClusterStep result;
  result.memory = steps.memory;
  std::vector<StepGraph> waiting;
  for (const StepGraph& one : steps.graphs)
    if (one.loader_ns > 0 && waiting.empty()) waiting = steps.graphs;
  wait_for_data(cluster, waiting);
  const auto& graphs = waiting.empty() ? steps.graphs : waiting;
  if (cluster.workers() > 1)
    for (const std::int64_t ns : collective_times(cluster, graphs[0]))
      result.exchange_ns += ns;
  const auto together = replay_until_steady(cluster, graphs);
  result.kind_ns = together.step_ns;
  result.waits_ns = together.waits_ns;
  result.ns =
      *std::max_element(together.step_ns.begin(), together.step_ns.end());
  return result;
}

void wait_for_data(const Cluster& cluster, std::vector<StepGraph>& steps) {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    bool is_any = false;
    for (const StepGraph& one : steps) is_any |= one.loader_ns > 0;
    if (!is_any) return;
    const auto together = replay_until_steady(cluster, steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::int64_t lacks = steps[i].loader_ns - together.step_ns[i];
      if (lacks > 0) steps[i].threads[0][0].cpu_ns += lacks;
    }
  }
}

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
