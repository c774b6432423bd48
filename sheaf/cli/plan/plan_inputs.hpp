#pragma once
// The inputs that `sheaf plan` and `sheaf predict` share: traces, machines,
// workers, descriptions of devices and of custom operators.

#include <CLI/CLI.hpp>
#include <deque>
#include <string>
#include <vector>

#include "sheaf/plan/graph/operator_map.hpp"
#include "sheaf/plan/predict/cluster.hpp"
#include "sheaf/plan/predict/device_profile.hpp"

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

// Reads a device description from a YAML file:
//
//   name: Tesla T4
//   tflops: {f32: 8.1, f16: 65, int8: 130}
//   memory_gbs: 320
//   memory: 15G           # optional, as are the next two
//   launch_us: 4
//   host_time: 1.2
//
// Throws UsageError with the file, the line and the problem, or IoError if
// the file cannot be read.
plan::DeviceProfile read_device(const std::string& path);

// Reads a YAML file that declares operators unknown to PyTorch:
//
//   operators:
//     - name: mine::product
//       backward: [MineBackward]
//       may_change: true
//
// Throws UsageError with the file, the line and the problem, or IoError if
// the file cannot be read.
plan::CustomOperators read_custom_operators(const std::string& path);

}  // namespace sheaf::cli
