#include "sheaf/cli/bench/bench_probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "sheaf/cli/bench/bench_race.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

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

}  // namespace

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

double probe_memory_gbs(const comm::Group& host) {
  const Bytes from(kCopyBytes, 1);
  Bytes to(kCopyBytes);
  const double us =
      time_us(host, [&] { std::memcpy(to.data(), from.data(), kCopyBytes); });
  return 2.0 * kCopyBytes * host.size() / us / 1e3;
}

double probe_reduce_gbs(const comm::Group& host) {
  Adder adder(kAddBytes);
  const double us = time_us(host, [&] {
    if (host.rank() == 0) adder.add();
  });
  return 2.0 * kAddBytes / us / 1e3;
}

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

double probe_stream_gbs(const comm::Group& pair) {
  Bytes out(kStreamBytes * kStreamMessages, 1);
  Bytes in(out.size());
  const double us = time_us(pair, [&] { exchange(pair, out, in); });
  return static_cast<double>(out.size()) / us / 1e3;
}

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

}  // namespace sheaf::cli
