#pragma once
// A step of many workers of one or more kinds. The workers of a kind do the
// same work at the same time and are simulated once.

#include <string>
#include <vector>

#include "sheaf/plan/graph/critical_path.hpp"
#include "sheaf/plan/graph/step_replay.hpp"
#include "sheaf/plan/predict/gradient_exchange.hpp"
#include "sheaf/plan/predict/mixed_step.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::plan {

// A hypothetical change, used if there is no trace of the device: factors on
// compute speed and memory bandwidth. As in a roofline model, layers
// are bound by compute, and the work between them by memory.
struct WhatIf {
  double compute = 1;
  double memory = 1;
  bool is_any() const { return compute != 1 || memory != 1; }
};

// For a step whose marks identify sides (mix_step). Work outside the model,
// such as the optimizer, scales with memory bandwidth.
StepGraph change_step(StepGraph step, const ModelGraph& graph,
                      const WhatIf& change);

// Workers of one kind, with the traces recorded on one of them.
struct WorkerKind {
  // Not owned; must outlive the cluster.
  const Recorded* recorded = nullptr;
  CastCosts casts;
  int count = 1;
  double slowdown = 1;  // of compute, if workers share cores
  WhatIf change{};
  std::int64_t memory_bytes = 0;  // memory of the device; 0: unknown
};

struct Cluster {
  std::vector<WorkerKind> kinds;
  topo::Machine machine;
  topo::Placement placement;  // for all workers
  ExchangeOptions exchange;

  int workers() const;
};

// The step of one kind of worker with the exchange; `plans` has one plan per
// kind.
StepGraph step_of(const Cluster& cluster, std::size_t kind,
                  const std::vector<PrecisionPlan>& plans);
// The two parts of step_of(): the work of a worker alone, and the exchange.
StepGraph step_alone(const Cluster& cluster, std::size_t kind,
                     const PrecisionPlan& plan);
ExchangeOptions exchange_of(const Cluster& cluster, std::size_t kind,
                            const std::vector<PrecisionPlan>& plans);

// Replays steps of all kinds until one takes as long as the one before: a
// thread that runs ahead is stopped by full queues only after several steps.
// `times`, if given, receives those of the last step.
Replay::Together replay_until_steady(const Cluster& cluster,
                                     const std::vector<StepGraph>& steps,
                                     std::vector<ReplayTimes>* times = nullptr);

// Adds waiting time to steps that are faster than their data loaders.
void wait_for_data(const Cluster& cluster, std::vector<StepGraph>& steps);

// Predicted times of a step's collectives from the machine model.
std::vector<std::int64_t> collective_times(const Cluster& cluster,
                                           const StepGraph& step);

struct ClusterStep {
  std::int64_t ns = 0;                 // slowest kind
  std::vector<std::int64_t> kind_ns;   // by kind
  std::vector<std::int64_t> waits_ns;  // waiting for others, by kind
  std::vector<PhaseMemory> memory;     // by kind
  std::int64_t exchange_ns = 0;        // sum of all collectives
};

// Cache of composed steps, by kind.
struct MixedSteps {
  std::vector<PrecisionPlan> plans;
  std::vector<ExchangePlan> routes;
  std::vector<StepGraph> graphs;
  std::vector<PhaseMemory> memory;
};

// Predicts a step in steady state, including the backlog of the step before;
// `plans` has one plan per kind. Kinds whose plan and exchange equal those in
// `known` are not composed again; afterwards `known` holds these plans. Throws
// UsageError if the number of plans is wrong or a precision has no trace.
ClusterStep predict_step(const Cluster& cluster,
                         const std::vector<PrecisionPlan>& plans,
                         MixedSteps* known = nullptr);

// A predicted step in detail.
struct ClusterTimeline {
  std::vector<StepGraph> steps;    // by kind
  std::vector<ReplayTimes> times;  // by kind
  std::vector<PathPiece> path;     // with kinds as ranks
};

// The timeline and critical path of the step that predict_step() predicts.
ClusterTimeline predict_timeline(const Cluster& cluster,
                                 const std::vector<PrecisionPlan>& plans);

// By thread and mark of such a step: whether the mark is a cast.
using MarkFlags = std::vector<std::vector<bool>>;
MarkFlags find_casts(const StepGraph& mixed);

// Accounts for workers that compute on the cores of one host, which share time
// slices of cores, caches and memory bandwidth: sets the slowdown and memory
// factor of each kind from the machine's hosts and contention, and whether the
// exchange uses cores that compute. Kinds on a GPU are unchanged; without hosts
// in the machine, all are.
void share_host(Cluster& cluster);

}  // namespace sheaf::plan
