// sheaf bench --fit: measures a machine and writes machine.json.

#include <array>
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"
#include "sheaf/cli/bench/bench_probe.hpp"
#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/topo/host.hpp"

namespace sheaf::cli {
namespace {

constexpr std::size_t kNameBytes = 64;

// The properties of a host, gathered as bytes.
struct HostCard {
  std::array<char, kNameBytes> name{};
  std::int32_t sockets = 1;
  std::int32_t cores = 1;
  std::int64_t memory_bytes = 0;
};

HostCard this_host() {
  const topo::HostInfo info = topo::detect_host();
  HostCard card;
  info.name.copy(card.name.data(), kNameBytes - 1);
  card.sockets = info.sockets();
  card.cores = info.cores;
  card.memory_bytes = info.memory_bytes;
  return card;
}

std::vector<topo::MachineHost> describe_hosts(const comm::Group& firsts) {
  const HostCard mine = this_host();
  std::vector<HostCard> cards(static_cast<std::size_t>(firsts.size()));
  comm::all_gather(
      firsts, comm::ConstBuffer(&mine, sizeof mine, DType::kU8),
      comm::Buffer(cards.data(), cards.size() * sizeof mine, DType::kU8))
      .wait();
  std::vector<topo::MachineHost> hosts;
  for (const HostCard& card : cards)
    hosts.push_back({.name = card.name.data(),
                     .sockets = card.sockets,
                     .cores = card.cores,
                     .memory_bytes = card.memory_bytes});
  return hosts;
}

class Fitter {
 public:
  Fitter(const comm::Group& group, const topo::Machine& start)
      : group_(group),
        machine_(start),
        table_({{.name = "part", .align = Align::kLeft},
                {.name = "latency", .unit = "us", .key = "latency_us"},
                {.name = "bandwidth", .unit = "GB/s", .key = "bandwidth_gbs"},
                {.name = "residual",
                 .unit = "%",
                 .key = "residual_percent",
                 .decimals = 1},
                {.name = "sizes used", .key = "used"},
                {.name = "dropped"}}) {}

  void run() {
    const comm::Group host = group_.split(group_.host_index());
    fit_host(host);
    const comm::Group firsts = group_.split(group_.local_rank() == 0 ? 0 : -1);
    if (firsts.is_member()) {
      machine_.hosts = describe_hosts(firsts);
      if (firsts.size() > 1) fit_network(firsts);
    }
    comm::barrier(group_).wait();
  }

  const topo::Machine& machine() const { return machine_; }
  const Table& table() const { return table_; }

 private:
  void add_fit(const std::string& part, const topo::LinkFit& fit) {
    table_.add_row({part, fit.link.latency_us, fit.link.bandwidth_gbs,
                    fit.residual * 100, fit.used, fit.dropped});
  }
  void add_value(const std::string& part, const Cell& us, const Cell& gbs) {
    table_.add_row({part, us, gbs, {}, {}, {}});
  }

  // Every host measures; the results of the first host are written.
  void fit_host(const comm::Group& host) {
    if (host.size() > 1) fit_shared_memory(host);
    machine_.shm_memory_gbs = probe_memory_gbs(host);
    add_value("memory", {}, machine_.shm_memory_gbs);
    machine_.reduce_gbs = probe_reduce_gbs(host);
    add_value("reduction", {}, machine_.reduce_gbs);
    if (host.size() > 1) machine_.contention = probe_contention(host);
  }

  void fit_shared_memory(const comm::Group& host) {
    const comm::Group pair = host.new_group({0, 1});
    if (pair.is_member()) {
      topo::LinkFit fit = topo::fit_link(probe_shared_memory(pair));
      fit.link.latency_us /= 2;  // a broadcast synchronizes twice
      machine_.shm = fit.link;
      add_fit("shared memory", fit);
    }
    comm::barrier(host).wait();
  }

  // Measures the first host with each of the others in turn.
  void fit_network(const comm::Group& firsts) {
    std::vector<topo::Sample> samples;
    std::vector<double> streams;
    for (int other = 1; other < firsts.size(); ++other) {
      const comm::Group pair = firsts.new_group({0, other});
      if (pair.is_member()) {
        const auto more = probe_network(pair);
        samples.insert(samples.end(), more.begin(), more.end());
        streams.push_back(probe_stream_gbs(pair));
        if (other == 1) machine_.message_us = probe_message_us(pair);
      }
      comm::barrier(firsts).wait();
    }
    if (firsts.rank() == 0) take_network(samples, streams);
  }

  // Collectives send and receive at the same time, so the bandwidth is that of
  // the bidirectional stream; the median over all links.
  void take_network(const std::vector<topo::Sample>& samples,
                    const std::vector<double>& streams) {
    const topo::LinkFit fit = topo::fit_link(samples);
    machine_.network = {fit.link.latency_us, median(streams)};
    add_fit("network, unidirectional", fit);
    add_value("network, bidirectional", {}, machine_.network.bandwidth_gbs);
    add_value("message", machine_.message_us, {});
  }

  const comm::Group& group_;
  topo::Machine machine_;
  Table table_;
};

}  // namespace

Ending run_fit(const comm::Group& group, const BenchJob& job) {
  Fitter fitter(group, job.plan.machine);
  fitter.run();
  if (group.rank() != 0) return {};
  topo::Machine machine = fitter.machine();
  if (!machine.hosts.empty()) machine.name = machine.hosts[0].name;
  fitter.table().print(std::cout, job.plan.format);
  return [machine, &job] {
    topo::save_machine(machine, job.args.fit);
    if (job.plan.format == TableFormat::kText)
      std::cout << "written to " << job.args.fit << std::endl;
  };
}

}  // namespace sheaf::cli
