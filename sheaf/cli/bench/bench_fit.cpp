// sheaf bench --fit: measures a machine and writes machine.json.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"
#include "sheaf/cli/bench/bench_race.hpp"
#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "sheaf/topo/fit.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/topo/machine.hpp"

namespace sheaf::cli {
namespace {

constexpr std::size_t kLargest = std::size_t{16} << 20;
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;
constexpr std::size_t kAddBytes = std::size_t{16} << 20;
constexpr int kAdders = 3;
constexpr std::size_t kStreamBytes = std::size_t{4} << 20;
constexpr int kStreamMessages = 4;
constexpr int kBurst = 64;
constexpr RaceOptions kRace{.blocks = 7, .iterations = 0, .seconds = 0.1};

using Bytes = std::vector<std::uint8_t>;

// Microseconds per call of `run`, the median over blocks.
double time_us(const comm::Group& group, std::function<void()> run) {
  const std::vector<Contestant> one{
      {.run = [&](std::size_t) { run(); }, .warmup = 2}};
  return race(group, one, kRace)[0].us.median;
}

// From 512 bytes up to at most kLargest, each four times the previous one.
std::vector<std::size_t> probe_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t size = 512; size <= kLargest; size *= 4)
    sizes.push_back(size);
  return sizes;
}

comm::Buffer part(void* data, std::size_t bytes) {
  return {data, bytes, DType::kU8};
}

// Adds one array of floats to another.
class Adder {
 public:
  explicit Adder(std::size_t bytes)
      : sum_(bytes / sizeof(float), 1), other_(sum_) {}
  void add() {
    const void* const sources[] = {sum_.data(), other_.data()};
    void* const outputs[] = {sum_.data()};
    comm::reduce({.dtype = DType::kF32, .op = comm::ReduceOp::kSum}, sources,
                 outputs, sum_.size());
  }

 private:
  std::vector<float> sum_;
  std::vector<float> other_;
};

void ping_pong(const comm::Group& pair, const comm::Buffer& data) {
  if (pair.rank() == 0) {
    comm::send(pair, data, 1);
    comm::recv(pair, data, 1);
  } else {
    comm::recv(pair, data, 0);
    comm::send(pair, data, 0);
  }
}

void exchange(const comm::Group& pair, Bytes& out, Bytes& in) {
  const int other = 1 - pair.rank();
  std::vector<comm::Work> works;
  for (int i = 0; i < kStreamMessages; ++i) {
    const auto at = static_cast<std::size_t>(i) * kStreamBytes;
    works.push_back(
        comm::irecv(pair, part(in.data() + at, kStreamBytes), other));
    works.push_back(
        comm::isend(pair, part(out.data() + at, kStreamBytes), other));
  }
  for (comm::Work& work : works) work.wait();
}

// The probes below: all ranks of the group must call each of them; all get the
// same result.

// Broadcasts between two ranks of a host through the arena: one rank copies the
// whole buffer, and the ranks synchronize twice.
std::vector<topo::Sample> probe_shared_memory(const comm::Group& pair) {
  const auto data = pair.allocate<std::uint8_t>(kLargest);
  std::memset(data.data(), 1, data.size());
  std::vector<topo::Sample> samples;
  for (const std::size_t bytes : probe_sizes()) {
    const double us = time_us(
        pair, [&] { comm::broadcast(pair, part(data.data(), bytes)).wait(); });
    samples.push_back({static_cast<double>(bytes), us});
  }
  return samples;
}

// Bytes read and written while all ranks of a host copy at the same time, in
// GB/s.
double probe_memory_gbs(const comm::Group& host) {
  const Bytes from(kCopyBytes, 1);
  Bytes to(kCopyBytes);
  const double us =
      time_us(host, [&] { std::memcpy(to.data(), from.data(), kCopyBytes); });
  return 2.0 * kCopyBytes * host.size() / us / 1e3;
}

// Input bytes that one core reduces, in GB/s; measured by the first rank.
double probe_reduce_gbs(const comm::Group& host) {
  Adder adder(kAddBytes);
  const double us = time_us(host, [&] {
    if (host.rank() == 0) adder.add();
  });
  return 2.0 * kAddBytes / us / 1e3;
}

// Slowdown of additions over about 100 MB when as many ranks run them as the
// host has cores, compared with the first rank alone. Both are interleaved,
// and the fastest block of each counts.
topo::Contention probe_contention(const comm::Group& host) {
  const int ranks = std::min(
      host.size(), static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<Adder> adders;
  for (int i = 0; i < kAdders; ++i) adders.emplace_back(kAddBytes);
  const auto add = [&](int among) {
    return Contestant{.run =
                          [&, among](std::size_t) {
                            if (host.rank() >= among) return;
                            for (Adder& adder : adders) adder.add();
                          },
                      .warmup = 1};
  };
  const std::vector<Contestant> both{add(1), add(ranks)};
  const auto times =
      race(host, both, {.blocks = 21, .iterations = 2, .seconds = 0});
  return {ranks, 2 * kAdders * static_cast<std::int64_t>(kAddBytes),
          std::clamp(times[1].us.min / times[0].us.min, 1.0, 1.0 * ranks)};
}

// Half the round-trip time of messages between the two ranks, by size.
std::vector<topo::Sample> probe_network(const comm::Group& pair) {
  Bytes data(kLargest, 1);
  std::vector<topo::Sample> samples;
  for (const std::size_t bytes : probe_sizes()) {
    const double us =
        time_us(pair, [&] { ping_pong(pair, part(data.data(), bytes)); });
    samples.push_back({static_cast<double>(bytes), us / 2});
  }
  return samples;
}

// Bandwidth in one direction while both ranks send and receive, in GB/s.
double probe_stream_gbs(const comm::Group& pair) {
  Bytes out(kStreamBytes * kStreamMessages, 1);
  Bytes in(out.size());
  const double us = time_us(pair, [&] { exchange(pair, out, in); });
  return static_cast<double>(out.size()) / us / 1e3;
}

// Time that a core spends on starting the send of one small message.
double probe_message_us(const comm::Group& pair) {
  Bytes data(8 * kBurst);
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    std::vector<comm::Work> works;
    comm::barrier(pair).wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kBurst && pair.rank() == 0; ++i)
      works.push_back(comm::isend(pair, part(&data[8 * i], 8), 1));
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - start;
    for (int i = 0; i < kBurst && pair.rank() == 1; ++i)
      comm::recv(pair, part(&data[8 * i], 8), 0);
    for (comm::Work& work : works) work.wait();
    times.push_back(largest(pair, {time.count() / kBurst})[0]);
  }
  return median(times);
}

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
