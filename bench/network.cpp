// What authentication, encryption, heartbeats and the validation of messages
// cost, beside the operations that they protect.

#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "sheaf/comm/network/acceptor.hpp"
#include "sheaf/comm/network/ack_watch.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/connect.hpp"
#include "sheaf/comm/network/frame_link.hpp"
#include "sheaf/comm/transport/tcp_inbox.hpp"
#include "sheaf/comm/transport/tcp_transport.hpp"

namespace sheaf::comm {
namespace {

const Address kHere = *parse_address("127.0.0.1/8");

Deadline soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

Party party_of(int rank, bool encrypts = false) {
  return {.purpose = Purpose::kTransport,
          .identity = {.job = "bench",
                       .key = Key().derive("a secret of the benchmark"),
                       .has_secret = true},
          .rank = rank,
          .size = 2,
          .encrypts = encrypts};
}

// Accepts authenticated connections, and hands out the latest.
class Host {
 public:
  explicit Host(bool encrypts = false)
      : acceptor_(listen_at(kHere, port_), party_of(0, encrypts),
                  [this](Acceptor::Guest guest) {
                    guest.channel.flush();
                    const std::lock_guard lock(mutex_);
                    latest_ = std::move(guest.channel);
                    changed_.notify_one();
                  }) {}

  Channel connect(bool encrypts = false) const {
    return connect_to({.endpoints = {{kHere, port_}},
                       .me = party_of(1, encrypts),
                       .peer = 0,
                       .deadline = soon()})
        .channel;
  }
  Channel latest() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return latest_.has_value(); });
    Channel result = std::move(*latest_);
    latest_.reset();
    return result;
  }

 private:
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Channel> latest_;
  Acceptor acceptor_;
};

// Once per pair of ranks and direction.
void authenticated_connection(benchmark::State& state) {
  Host host;
  for ([[maybe_unused]] auto _ : state) {
    const Channel mine = host.connect();
    const Channel theirs = host.latest();
    benchmark::DoNotOptimize(theirs.fd());
  }
}
BENCHMARK(authenticated_connection)->UseRealTime();

void plain_connection(benchmark::State& state) {
  std::uint16_t port = 0;
  const Socket listening = listen_at(kHere, port);
  for ([[maybe_unused]] auto _ : state) {
    int error = 0;
    const Socket mine = connect_within({kHere, port}, soon(), error);
    is_ready(listening.fd(), POLLIN, soon());
    const Socket theirs(accept4(listening.fd(), nullptr, nullptr, 0));
    benchmark::DoNotOptimize(theirs.fd());
  }
}
BENCHMARK(plain_connection)->UseRealTime();

// One look of the monitor at a host: it looks every 20 ms, and sends a
// heartbeat every 200 ms.
void heartbeat(benchmark::State& state) {
  Host host;
  FrameLink mine(host.connect(), 1024);
  FrameLink theirs(host.latest(), 1024);
  auto now = std::chrono::steady_clock::now();
  for ([[maybe_unused]] auto _ : state) {
    now += std::chrono::milliseconds(20);
    benchmark::DoNotOptimize(mine.keep_alive(now));
    state.PauseTiming();
    theirs.read([](const auto&) {});
    state.ResumeTiming();
  }
}
BENCHMARK(heartbeat);

// One look of the TCP transport at a peer, every 100 ms.
void ack_watch(benchmark::State& state) {
  Host host;
  const Channel mine = host.connect();
  AckWatch watch(std::chrono::seconds(1));
  auto now = std::chrono::steady_clock::now();
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(watch.is_cut_off(mine.fd(), now));
}
BENCHMARK(ack_watch);

// The checks of the head of a message.
void frame_validation(benchmark::State& state) {
  FrameHead head{.kind = FrameKind::kWhole, .part = 8, .bytes = 8};
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(head);
    benchmark::DoNotOptimize(is_valid(head));
  }
}
BENCHMARK(frame_validation);

// Two ranks of this process that are connected by TCP.
struct Pair {
  Pair() {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> cards(2);
    TcpOptions options;
    options.interface = "lo";
    const auto make = [&](int rank) {
      transports[rank] = make_tcp_transport(
          rank, 2, options, [&, rank](const std::string& mine) {
            std::unique_lock lock(mutex);
            cards[static_cast<std::size_t>(rank)] = mine;
            changed.notify_all();
            changed.wait(
                lock, [&] { return !cards[0].empty() && !cards[1].empty(); });
            return MeetingResult{.cards = cards, .session = Key()};
          });
    };
    std::thread other([&] { make(1); });
    make(0);
    other.join();
  }
  std::array<std::unique_ptr<Transport>, 2> transports;
};

// A message of state.range(0) bytes from one rank to the other, on one thread.
void message(benchmark::State& state) {
  Pair pair;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(bytes);
  std::vector<std::byte> to(bytes);
  for ([[maybe_unused]] auto _ : state) {
    Request receive = pair.transports[1]->receive(0, 1, to.data(), bytes);
    Request send = pair.transports[0]->send(1, 1, from.data(), bytes);
    bool is_sent = false;
    bool is_here = false;
    while (!is_sent || !is_here) {
      is_sent = is_sent || pair.transports[0]->test(send);
      is_here = is_here || pair.transports[1]->test(receive);
    }
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(message)->Arg(8)->Arg(1 << 20);

// The throughput of a connection within this host, with a thread on each side.
void stream(benchmark::State& state) {
  const bool encrypts = state.range(0) != 0;
  Host host(encrypts);
  Channel mine = host.connect(encrypts);
  Channel theirs = host.latest();
  std::vector<std::byte> data(1 << 20);
  std::thread reader([&] {
    std::vector<std::byte> room(1 << 20);
    const iovec part{room.data(), room.size()};
    for (;;) {
      const ssize_t got = theirs.read(&part, 1);
      if (got == 0 || (got < 0 && !is_for_later(errno))) return;
      if (got < 0) is_ready(theirs.fd(), POLLIN, soon());
    }
  });
  for ([[maybe_unused]] auto _ : state) {
    std::size_t at = 0;
    while (at < data.size()) {
      const iovec part{data.data() + at, data.size() - at};
      const ssize_t sent = mine.write(&part, 1);
      if (sent > 0)
        at += static_cast<std::size_t>(sent);
      else
        is_ready(mine.fd(), POLLOUT, soon());
    }
  }
  while (mine.has_unsent() && mine.flush()) {
  }
  mine.close();
  reader.join();
  state.SetLabel(encrypts ? "encrypted" : "plain");
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(data.size()));
}
BENCHMARK(stream)->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace sheaf::comm

BENCHMARK_MAIN();
