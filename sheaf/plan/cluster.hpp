#pragma once
// A step of many workers, of one or more kinds: those of a kind do the same at
// the same time and are computed once.

#include <string>
#include <vector>

#include "sheaf/plan/gradient_exchange.hpp"
#include "sheaf/plan/mixed_step.hpp"
#include "sheaf/plan/replay.hpp"
#include "sheaf/plan/what_if.hpp"
#include "sheaf/topo/predict.hpp"

namespace sheaf::plan {

// Workers of one kind: what was recorded on one of them.
struct WorkerKind {
  const Recorded* recorded = nullptr;
  CastCosts casts;
  int count = 1;
  double slowdown = 1;  // of computing, where workers share cores
  WhatIf change{};
};

struct Cluster {
  std::vector<WorkerKind> kinds;
  topo::Machine machine;
  topo::Placement placement;  // of all workers
  ExchangeOptions exchange;

  int workers() const;
};

struct ClusterStep {
  std::int64_t ns = 0;                 // of the slowest kind
  std::vector<std::int64_t> kind_ns;   // by kind
  std::vector<std::int64_t> waits_ns;  // for others, by kind
  std::vector<PhaseMemory> memory;     // by kind
  std::int64_t exchange_ns = 0;        // all collectives alone
};

// One plan for each kind. A step like the one before it, when what that left
// to do is there.
ClusterStep predict_step(const Cluster& cluster,
                         const std::vector<PrecisionPlan>& plans);

}  // namespace sheaf::plan
