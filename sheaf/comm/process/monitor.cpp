#include "sheaf/comm/process/monitor.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/connect.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kPollSlice = milliseconds(20);
constexpr auto kWatchPeriod = milliseconds(50);
constexpr auto kReachTimeout = std::chrono::seconds(10);
constexpr auto kStartSlice = milliseconds(50);
// Time to send the last messages at the end.
constexpr auto kLastWords = milliseconds(500);

Party party_of(const HostMap& world, const MonitorAddress& address) {
  JobIdentity identity = find_identity("");
  identity.key = identity.key.derive("monitor", bytes_of(address.random));
  return {.purpose = Purpose::kMonitor,
          .identity = identity,
          .rank = world.rank,
          .size = world.size(),
          .encrypts = wants_encryption()};
}

}  // namespace

Socket listen_for_peers(MonitorAddress& address, std::vector<Address> mine) {
  const char* interface = std::getenv("SHEAF_INTERFACE");
  if (mine.empty()) mine = list_addresses(interface ? interface : "");
  for (const Address& one : mine)
    if (address.count < MonitorAddress::kMaxAddresses)
      address.hosts[address.count++] = {one.ip, one.prefix_bits};
  address.random = random_bytes();
  return listen_at(
      mine.size() == 1 ? std::optional(mine.front()) : std::nullopt,
      address.port);
}

Monitor::Monitor(HostMemory& memory, const HostMap& world, MonitorStart start)
    : memory_(memory),
      world_(world),
      ends_(static_cast<std::size_t>(memory.local_size()), EndNews::kNone) {
  host_timeout();  // reports an invalid variable here, not on another thread
  if (start.listening)
    accept_peers(start);
  else
    connect_to_hub(start);
  thread_ = std::thread([this] { run(); });
}

Monitor::~Monitor() {
  stop();
  // The cause of a failure is more useful to other hosts than a closed
  // connection.
  forward_alarms();
  flush_all();
}

// The first ranks of other hosts that are not `present`.
std::vector<int> Monitor::missing_peers(const std::vector<int>& present) const {
  std::vector<int> missing;
  for (const auto& members : world_.hosts)
    if (members.front() != world_.rank &&
        std::find(present.begin(), present.end(), members.front()) ==
            present.end())
      missing.push_back(members.front());
  return missing;
}

void Monitor::accept_peers(MonitorStart& start) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> present;
  const auto welcome = [&](Acceptor::Guest guest) {
    const std::lock_guard lock(mutex);
    const auto missing = missing_peers(present);
    if (std::find(missing.begin(), missing.end(), guest.rank) == missing.end())
      return;  // not the first rank of a host, or a second connection
    present.push_back(guest.rank);
    peers_.push_back(
        {guest.rank, FrameLink(std::move(guest.channel), kMostMonitorBytes)});
    changed.notify_one();
  };
  Acceptor acceptor(std::move(start.listening), party_of(world_, start.address),
                    welcome);
  const auto until = steady_clock::now() + start.timeout;
  const auto missing = [&] {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kStartSlice,
                     [&] { return missing_peers(present).empty(); });
    return missing_peers(present);
  };
  for (auto ranks = missing(); !ranks.empty(); ranks = missing()) {
    if (start.check)
      for (const int rank : ranks) start.check(rank);
    if (steady_clock::now() > until) fail_start(ranks, acceptor.last_refusal());
  }
}

void Monitor::fail_start(const std::vector<int>& missing,
                         const std::string& refusal) {
  std::string names;
  for (const int rank : missing)
    names += concat(names.empty() ? "" : ", ", rank);
  throw CommError(concat(
      "rank 0: no connection from rank ", names,
      ", the first of its host, to the monitor; check that the hosts can reach "
      "each other by TCP, or set SHEAF_INTERFACE to the interface to use",
      refusal.empty() ? "" : concat(" (", refusal, ")")));
}

void Monitor::connect_to_hub(const MonitorStart& start) {
  const auto theirs =
      by_nearness(addresses_of(start.address), list_addresses(""));
  const auto now = steady_clock::now();
  const auto timeout = std::max<milliseconds>(start.timeout, kReachTimeout);
  Connection connection =
      connect_to({.endpoints = endpoints_of(theirs, start.address.port),
                  .me = party_of(world_, start.address),
                  .peer = 0,
                  .deadline = now + kReachTimeout,
                  .answer_deadline = now + timeout},
                 [&] {
                   if (start.check) start.check(0);
                 });
  if (!connection.channel)
    throw CommError(concat("rank ", world_.rank,
                           ": cannot reach rank 0 by TCP (", connection.why,
                           "); check the network and firewall between the "
                           "hosts, or set SHEAF_INTERFACE to the interface to "
                           "use"));
  peers_.push_back(
      {0, FrameLink(std::move(connection.channel), kMostMonitorBytes)});
}

void Monitor::run() {
  std::vector<pollfd> entries;
  while (!is_stopping_) {
    entries.clear();
    for (const Peer& peer : peers_)
      entries.push_back({peer.link.fd(), POLLIN, 0});  // may be -1: ignored
    poll(entries.data(), entries.size(), static_cast<int>(kPollSlice.count()));
    const auto now = steady_clock::now();
    for (Peer& peer : peers_) serve(peer, now);
    watch_local_ranks();
    forward_alarms();
    forward_refresh();
  }
}

void Monitor::serve(Peer& peer, steady_clock::time_point now) {
  if (!peer.link.is_open()) return;
  if (!peer.link.read([&](const auto& frame) { handle(peer, frame); }))
    return lose(peer);
  if (!peer.link.keep_alive(now) && !peer.has_left) lose_host(peer);
}

void Monitor::watch_local_ranks() {
  if (steady_clock::now() - last_watch_ < kWatchPeriod) return;
  last_watch_ = steady_clock::now();
  for (int local = 0; local < memory_.local_size(); ++local)
    if (memory_.life_of(local) == HostMemory::Life::kDead) {
      const int rank = world_.local_ranks()[static_cast<std::size_t>(local)];
      memory_.alarm().raise(AlarmKind::kRankDied, rank, -1, "");
    }
  watch_local_ends();
}

// Ranks usually end together, which need not be reported. Only an end that is
// still seen in a second round is reported.
void Monitor::watch_local_ends() {
  for (std::size_t local = 0; local < ends_.size(); ++local) {
    const RankEnd& end = memory_.header(static_cast<int>(local)).end;
    if (ends_[local] == EndNews::kSent || !end.has_ended()) continue;
    if (ends_[local] == EndNews::kNone) {
      ends_[local] = EndNews::kSeen;
      continue;
    }
    ends_[local] = EndNews::kSent;
    RankEndNews news{.rank = world_.local_ranks()[local]};
    end.for_each_group(
        [&](const CallNumber& call) { news.calls.push_back(call); });
    send_to_others(nullptr, MonitorMessage::kEnd, encode(news));
  }
}

void Monitor::forward_alarms() {
  sent_alarms_.for_each_new(memory_.alarm(), [this](const AlarmRecord& record) {
    send_to_others(nullptr, MonitorMessage::kAlarm, bytes_of(record));
  });
}

void Monitor::forward_refresh() {
  const std::uint32_t wanted = memory_.header(0).refreshes_wanted.load();
  if (wanted == refreshes_sent_) return;
  refreshes_sent_ = wanted;
  send_to_others(nullptr, MonitorMessage::kAsk);
}

void Monitor::handle(Peer& from, const FrameBuffer::Frame& frame) {
  switch (static_cast<MonitorMessage>(frame.kind)) {
    case MonitorMessage::kAlarm:
      return take_alarm(frame.payload);
    case MonitorMessage::kAsk:
      send_status_to(from);
      return send_to_others(&from, MonitorMessage::kAsk);
    case MonitorMessage::kStatus:
      return take_status(from, frame.payload);
    case MonitorMessage::kEnd:
      return take_end(from, frame.payload);
    case MonitorMessage::kBye:
      from.has_left = true;
      return;
    default:
      return;  // of a later version
  }
}

void Monitor::take_alarm(std::span<const std::byte> payload) {
  if (const auto record = decode_alarm(payload, world_.size()))
    memory_.alarm().raise(record->kind, record->rank, record->group,
                          record->text);
}

void Monitor::take_status(Peer& from, std::span<const std::byte> payload) {
  const auto status = decode_status(payload, world_.size(), now_ns());
  if (!status || world_.is_local(status->rank)) return;
  send_to_others(&from, MonitorMessage::kStatus, payload);
  memory_.board(status->rank).mirror(status->record);
}

void Monitor::take_end(Peer& from, std::span<const std::byte> payload) {
  const auto news = decode_end(payload, world_.size());
  if (!news || world_.is_local(news->rank)) return;
  RankEnd& end = memory_.remote_end(news->rank);
  if (end.has_ended()) return;  // it is known
  for (const CallNumber& call : news->calls) end.note_call(call);
  end.note_end();
  send_to_others(&from, MonitorMessage::kEnd, payload);
}

void Monitor::send_status_to(Peer& peer) {
  for (int local = 0; local < memory_.local_size(); ++local) {
    const auto record = memory_.header(local).flight.latest();
    if (!record) continue;
    const int rank = world_.local_ranks()[static_cast<std::size_t>(local)];
    send_to(peer, MonitorMessage::kStatus,
            encode(RankStatus{rank, *record}, now_ns()));
  }
}

// Questions and answers do not fill the memory for a peer that does not read.
void Monitor::send_to(Peer& peer, MonitorMessage kind,
                      std::span<const std::byte> payload) {
  const bool is_optional =
      kind == MonitorMessage::kAsk || kind == MonitorMessage::kStatus;
  if (!peer.link.is_open() || (is_optional && peer.link.is_congested())) return;
  peer.link.send(static_cast<std::uint32_t>(kind), payload);
}

void Monitor::send_to_others(const Peer* from, MonitorMessage kind,
                             std::span<const std::byte> payload) {
  for (Peer& peer : peers_)
    if (&peer != from) send_to(peer, kind, payload);
}

// Sends what is queued, for a bounded time.
void Monitor::flush_all() {
  const auto until = steady_clock::now() + kLastWords;
  const auto has_more = [](const Peer& peer) {
    return peer.link.is_open() && peer.link.has_unsent();
  };
  while (std::any_of(peers_.begin(), peers_.end(), has_more) &&
         steady_clock::now() < until) {
    for (Peer& peer : peers_) peer.link.keep_alive(steady_clock::now());
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Monitor::lose(Peer& peer) {
  peer.link.close();
  if (!peer.has_left)
    memory_.alarm().raise(AlarmKind::kRankDied, peer.rank, -1, "");
}

void Monitor::lose_host(Peer& peer) {
  peer.link.close();
  const int host = world_.host_of[static_cast<std::size_t>(peer.rank)];
  for (const int rank : world_.hosts[static_cast<std::size_t>(host)])
    memory_.alarm().raise(AlarmKind::kRankDied, rank, -1,
                          "its host does not respond any more: the host has "
                          "failed, or the network to it is cut");
}

void Monitor::stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Monitor::leave() {
  stop();
  send_to_others(nullptr, MonitorMessage::kBye);
  flush_all();
}

}  // namespace sheaf::comm
