#include "sheaf/cli/plan/plan_inputs.hpp"

#include <algorithm>
#include <future>

#include "sheaf/base/error.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/plan/plan_files.hpp"
#include "sheaf/plan/predict/batch_scaling.hpp"
#include "sheaf/plan/predict/cluster.hpp"

namespace sheaf::cli {
namespace {

// Reads the traces and groups them by device, in the order in which devices
// first appear on the command line.
std::vector<std::vector<plan::StepProfile>> by_device(
    const PlanInputs& inputs) {
  plan::CustomOperators custom;
  if (!inputs.operators.empty())
    custom = read_custom_operators(inputs.operators);
  // Reading the files takes most of the time, so they are read in parallel.
  std::vector<std::future<plan::StepProfile>> profiles;
  for (const std::string& file : inputs.traces)
    profiles.push_back(std::async(std::launch::async, [&custom, file] {
      return plan::read_profile(file, custom);
    }));
  std::vector<std::vector<plan::StepProfile>> groups;
  for (auto& coming : profiles) {
    plan::StepProfile profile = coming.get();
    const auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
          return group[0].device_name == profile.device_name &&
                 group[0].model.device == profile.model.device;
        });
    auto& group = at == groups.end() ? groups.emplace_back() : *at;
    group.push_back(std::move(profile));
  }
  if (inputs.batch > 0)
    for (auto& group : groups) group = plan::all_at_batch(group, inputs.batch);
  return groups;
}

plan::CastCosts casts_on(const topo::Machine& machine,
                         const std::string& device) {
  plan::CastCosts costs;
  for (const topo::MachineDevice& one : machine.devices) {
    if (one.name != device) continue;
    for (const topo::MachineCast& cast : one.casts)
      costs.pairs[{plan::parse_precision(cast.from),
                   plan::parse_precision(cast.to)}] = {cast.ns_per_element,
                                                       cast.ns};
  }
  return costs;
}

void use_routes(const plan::ExchangePlan& routes, plan::Cluster& cluster) {
  for (const plan::WorkerKind& kind : cluster.kinds)
    plan::check_routes(routes, kind.recorded->base());
  cluster.exchange.routes = routes;
}

// One kind of worker: its traces and the cost of casts.
struct Traced {
  std::vector<plan::StepProfile> profiles;
  plan::CastCosts casts;
  std::int64_t memory_bytes = 0;
};

// The description of the device on which the traces were recorded: the file of
// --traced-on, or one of --devices with the same name.
plan::DeviceProfile traced_device(const PlanInputs& inputs,
                                  const std::vector<plan::DeviceProfile>& to,
                                  const std::string& name) {
  if (!inputs.traced_on.empty()) return read_device(inputs.traced_on);
  for (const plan::DeviceProfile& one : to)
    if (one.name == name) return one;
  throw UsageError(concat("the traces were recorded on ", name,
                          "; pass its device file with --traced-on"));
}

std::vector<Traced> scaled_groups(const PlanInputs& inputs,
                                  const std::vector<plan::StepProfile>& traces,
                                  const topo::Machine& machine) {
  std::vector<plan::DeviceProfile> devices;
  for (const std::string& file : inputs.devices)
    devices.push_back(read_device(file));
  const std::string& name = traces[0].device_name;
  const plan::DeviceProfile from = traced_device(inputs, devices, name);
  std::vector<Traced> groups;
  for (const plan::DeviceProfile& to : devices) {
    Traced one;
    one.memory_bytes = to.memory_bytes;
    one.casts = casts_on(machine, to.name);
    if (to.name == name) {
      one.profiles = traces;
    } else {
      one.profiles = plan::traces_on(traces, from, to);
      if (one.casts.pairs.empty())
        one.casts = plan::scale_casts(casts_on(machine, name), from, to);
    }
    groups.push_back(std::move(one));
  }
  return groups;
}

std::vector<Traced> kinds_of(const PlanInputs& inputs,
                             const topo::Machine& machine) {
  auto groups = by_device(inputs);
  SHEAF_CHECK(inputs.devices.empty() || groups.size() == 1,
              "--devices needs traces of one device, these are from ",
              groups.size(), " devices");
  SHEAF_CHECK(inputs.traced_on.empty() || !inputs.devices.empty(),
              "--traced-on needs --devices, which is not given");
  if (!inputs.devices.empty()) return scaled_groups(inputs, groups[0], machine);
  std::vector<Traced> kinds;
  for (auto& group : groups) {
    plan::CastCosts casts = casts_on(machine, group[0].device_name);
    kinds.push_back({std::move(group), std::move(casts)});
  }
  return kinds;
}

}  // namespace

std::string device_label(const plan::WorkerKind& kind) {
  const plan::StepProfile& base = kind.recorded->base();
  const std::string name =
      base.device_name.empty() ? base.model.device : base.device_name;
  if (base.scaled_from.empty()) return name;
  return concat(name, " (scaled from ", base.scaled_from, " by roofline)");
}

void PlanInputs::add_to(CLI::App& command) {
  command.add_option("traces", traces,
                     "Traces of one model, one per device and precision");
  command.add_option("--machine", machine,
                     "machine.json, written by sheaf bench --fit");
  command
      .add_option("--workers", workers,
                  "Number of workers of each kind of device, in the order of "
                  "the traces")
      ->delimiter(',');
  command.add_option("--topology", topology,
                     "Ranks per host x hosts, such as 4x3 (default: one host)");
  command.add_option("--bucket", bucket,
                     "Maximum size of a gradient bucket (default: 25M)");
  command.add_option("--exchange", exchange,
                     "Exchange method: gradients, half, dad, edad or "
                     "rank-dad:4; per layer: gradients,fc1=dad");
  command
      .add_option("--batch", batch,
                  "Scale the step to this batch size: by rule, or linearly if "
                  "there are traces with two batch sizes")
      ->check([](const std::string& text) {
        return text[0] == '-' || text == "0"
                   ? "must be at least 1 sample, not " + text
                   : std::string();
      });
  command
      .add_option("--devices", devices,
                  "YAML files of devices to scale the traces to, one per kind "
                  "of worker")
      ->delimiter(',');
  command.add_option("--traced-on", traced_on,
                     "YAML file of the device the traces were recorded on");
  command.add_option("--operators", operators,
                     "YAML file that declares custom operators");
}

plan::Cluster make_cluster(const PlanInputs& inputs,
                           std::deque<plan::Recorded>& recorded) {
  SHEAF_CHECK(!inputs.traces.empty(),
              "pass the traces of one model; sheaf trace records them");
  plan::Cluster cluster;
  if (!inputs.machine.empty())
    cluster.machine = topo::load_machine(inputs.machine);
  auto groups = kinds_of(inputs, cluster.machine);
  SHEAF_CHECK(inputs.workers.empty() || inputs.workers.size() == groups.size(),
              "--workers has ", inputs.workers.size(),
              " numbers, but there are traces of ", groups.size(), " devices");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const plan::Recorded& one =
        recorded.emplace_back(std::move(groups[i].profiles));
    plan::WorkerKind kind;
    kind.recorded = &one;
    kind.memory_bytes = groups[i].memory_bytes;
    kind.casts = plan::casts_of(one, groups[i].casts);
    kind.count = inputs.workers.empty() ? 1 : inputs.workers[i];
    SHEAF_CHECK(kind.count >= 1, "--workers must be 1 or more, not ",
                kind.count);
    cluster.kinds.push_back(kind);
  }
  const int workers = cluster.workers();
  topo::Dims dims{{workers}};
  if (!inputs.topology.empty()) dims = topo::parse_dims(inputs.topology);
  topo::check_fits(dims, workers);
  cluster.placement = topo::placement_of(dims);
  if (!inputs.bucket.empty())
    cluster.exchange.caps.bytes =
        static_cast<std::size_t>(parse_bytes(inputs.bucket));
  if (!inputs.exchange.empty())
    use_routes(plan::parse_exchange(inputs.exchange), cluster);
  plan::share_host(cluster);
  return cluster;
}

void use_exchange_of(const std::string& plan, const PlanInputs& inputs,
                     plan::Cluster& cluster) {
  if (plan.empty() || !inputs.exchange.empty()) return;
  const auto routes = plan::parse_exchange_of(plan::read_plan_text(plan), plan);
  if (routes) use_routes(*routes, cluster);
}

}  // namespace sheaf::cli
