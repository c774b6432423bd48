#pragma once
// The inputs that `sheaf plan` and `sheaf predict` share: traces, machines and
// workers.

#include <CLI/CLI.hpp>
#include <deque>
#include <string>
#include <vector>

#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::cli {

struct PlanInputs {
  std::vector<std::string> traces;
  std::string machine;       // path of machine.json
  std::vector<int> workers;  // per kind of device; empty: one of each
  std::string topology;      // "4x3"
  std::string bucket;        // bytes
  std::string exchange;      // "gradients,fc1=dad"; "": not specified
  std::string operators;     // path of the custom operators' file
  std::int64_t batch = 0;    // samples; 0: as recorded
  // Files of the devices to scale the traces to; empty: no scaling.
  std::vector<std::string> devices;
  std::string traced_on;  // file of the device the traces were recorded on

  void add_to(CLI::App& command);
  bool describes_workers() const {
    return !workers.empty() || !topology.empty() || !machine.empty() ||
           !bucket.empty() || !exchange.empty() || !devices.empty();
  }
};

// The name of the device, such as "Tesla T4", with a note if its times were
// scaled from another device.
std::string device_label(const plan::WorkerKind& kind);

// Reads the traces and builds the cluster. The cluster points into `recorded`,
// which must outlive it.
plan::Cluster make_cluster(const PlanInputs& inputs,
                           std::deque<plan::Recorded>& recorded);

// Sets the exchange methods from a plan.json, if the plan has them and the
// inputs do not specify --exchange.
void use_exchange_of(const std::string& plan, const PlanInputs& inputs,
                     plan::Cluster& cluster);

}  // namespace sheaf::cli
