#pragma once
// What commands that look ahead have in common: traces, machines, workers.

#include <CLI/CLI.hpp>
#include <deque>
#include <string>
#include <vector>

#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::cli {

struct PlanInputs {
  std::vector<std::string> traces;
  std::string machine;       // a file
  std::vector<int> workers;  // of each kind of device; none: one
  std::string topology;      // "4x3"
  std::string bucket;        // bytes
  std::string exchange;      // "gradients,fc1=dad"; "": not told
  std::string operators;     // a file of custom ones
  std::int64_t batch = 0;    // samples; 0: as recorded
  // Files of devices that the traces are scaled to; none: those of the traces.
  std::vector<std::string> devices;
  std::string traced_on;  // the file of the traces' device

  void add_to(CLI::App& command);
  bool describes_workers() const {
    return !workers.empty() || !topology.empty() || !machine.empty() ||
           !bucket.empty() || !exchange.empty() || !devices.empty();
  }
};

// "Tesla T4", with a word where it was not traced.
std::string device_label(const plan::WorkerKind& kind);

// The traces by device, and the workers; `recorded` holds what was read.
plan::Cluster make_cluster(const PlanInputs& inputs,
                           std::deque<plan::Recorded>& recorded);

// What workers exchange under a plan.json, where the inputs do not tell it and
// the plan does.
void use_exchange_of(const std::string& plan, const PlanInputs& inputs,
                     plan::Cluster& cluster);

}  // namespace sheaf::cli
