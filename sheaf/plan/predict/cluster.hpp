#pragma once
// A step of many workers, of one or more kinds: those of a kind do the same at
// the same time and are computed once.

#include <string>
#include <vector>

#include "sheaf/plan/graph/step_replay.hpp"
#include "sheaf/plan/predict/gradient_exchange.hpp"
#include "sheaf/plan/predict/mixed_step.hpp"
#include "sheaf/plan/predict/what_if.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::plan {

// Workers of one kind: what was recorded on one of them.
struct WorkerKind {
  const Recorded* recorded = nullptr;
  CastCosts casts;
  int count = 1;
  double slowdown = 1;  // of computing, where workers share cores
  WhatIf change{};
  std::int64_t memory_bytes = 0;  // that it has; 0: not told
};

struct Cluster {
  std::vector<WorkerKind> kinds;
  topo::Machine machine;
  topo::Placement placement;  // of all workers
  ExchangeOptions exchange;

  int workers() const;
};

// A step of workers of this kind, with the exchange; one plan for each kind.
StepGraph step_of(const Cluster& cluster, std::size_t kind,
                  const std::vector<PrecisionPlan>& plans);
// The same in two parts: what the worker does alone, and what is exchanged.
StepGraph step_alone(const Cluster& cluster, std::size_t kind,
                     const PrecisionPlan& plan);
ExchangeOptions exchange_of(const Cluster& cluster, std::size_t kind,
                            const std::vector<PrecisionPlan>& plans);

// Steps of all kinds, until one takes as long as the one before it: a thread
// that runs ahead is stopped by full queues only after some. `times`, where
// given, are those of the last one.
Replay::Together replay_until_steady(const Cluster& cluster,
                                     const std::vector<StepGraph>& steps,
                                     std::vector<ReplayTimes>* times = nullptr);

// Lets steps of workers that are faster than their loaders wait.
void wait_for_data(const Cluster& cluster, std::vector<StepGraph>& steps);

// What collectives of such a step take by the machine's formulas.
std::vector<std::int64_t> collective_times(const Cluster& cluster,
                                           const StepGraph& step);

struct ClusterStep {
  std::int64_t ns = 0;                 // of the slowest kind
  std::vector<std::int64_t> kind_ns;   // by kind
  std::vector<std::int64_t> waits_ns;  // for others, by kind
  std::vector<PhaseMemory> memory;     // by kind
  std::int64_t exchange_ns = 0;        // all collectives alone
};

// What was put together for plans, by kind.
struct MixedSteps {
  std::vector<PrecisionPlan> plans;
  std::vector<ExchangePlan> ways;
  std::vector<StepGraph> graphs;
  std::vector<PhaseMemory> memory;
};

// One plan for each kind. A step like the one before it, when what that left
// to do is there. Kinds whose plan is that of `known` are not put together
// again, unless what they exchange changes; afterwards it holds these plans'.
ClusterStep predict_step(const Cluster& cluster,
                         const std::vector<PrecisionPlan>& plans,
                         MixedSteps* known = nullptr);

}  // namespace sheaf::plan
