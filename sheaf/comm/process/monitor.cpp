#include "sheaf/comm/process/monitor.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
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
constexpr auto kStartTimeout = std::chrono::seconds(10);
// Time to send the last messages at the end.
constexpr auto kLastWords = milliseconds(500);

// Kind 0 is FrameLink's.
enum Kind : std::uint32_t { kAlarm = 1, kAsk, kStatus, kBye, kEnd };

// The times in the record are ages, since the clocks of hosts differ.
struct Status {
  std::int32_t rank;
  FlightRecord record;
};

// Followed by the CallNumbers of the rank's groups.
struct EndHead {
  std::int32_t rank;
};

constexpr std::size_t kMostMonitorBytes =
    std::max({sizeof(AlarmRecord), sizeof(Status),
              sizeof(EndHead) + (kPlainCalls + 1) * sizeof(CallNumber)});

// The value in a payload; nothing if the payload has another size.
template <class T>
std::optional<T> value_in(std::span<const std::byte> payload) {
  if (payload.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(static_cast<void*>(&value), payload.data(), sizeof value);
  return value;
}

Party party_of(const HostMap& world, const MonitorAddress& address) {
  JobIdentity identity = find_identity("");
  identity.key = identity.key.derive("monitor", bytes_of(address.random));
  return {.purpose = Purpose::kMonitor,
          .identity = identity,
          .rank = world.rank,
          .size = world.size(),
          .encrypts = wants_encryption()};
}

bool is_valid(const FlightRecord& record) {
  std::uint8_t has_ended = 0;  // other values of a bool are undefined
  std::memcpy(&has_ended, &record.has_ended, sizeof has_ended);
  return record.call.operation <= kLastOperation && has_ended <= 1 &&
         static_cast<int>(record.call.dtype) < kDTypeCount &&
         static_cast<int>(record.call.op) < kReduceOpCount;
}

}  // namespace

Socket listen_for_peers(MonitorAddress& address) {
  const char* interface = std::getenv("SHEAF_INTERFACE");
  const auto mine = list_addresses(interface ? interface : "");
  for (const Address& one : mine)
    if (address.count < MonitorAddress::kMaxAddresses)
      address.hosts[address.count++] = {one.ip, one.prefix_bits};
  address.random = random_bytes();
  return listen_at(
      mine.size() == 1 ? std::optional(mine.front()) : std::nullopt,
      address.port);
}

Monitor::Monitor(HostMemory& memory, const HostMap& world,
                 const MonitorAddress& address, Socket listening)
    : memory_(memory),
      world_(world),
      ends_(static_cast<std::size_t>(memory.local_size()), EndNews::kNone) {
  if (listening)
    accept_peers(address, std::move(listening));
  else
    connect_to_hub(address);
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

void Monitor::accept_peers(const MonitorAddress& address, Socket listening) {
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
  Acceptor acceptor(std::move(listening), party_of(world_, address), welcome);
  std::unique_lock lock(mutex);
  if (changed.wait_for(lock, kStartTimeout,
                       [&] { return missing_peers(present).empty(); }))
    return;
  std::string names;
  for (const int rank : missing_peers(present))
    names += concat(names.empty() ? "" : ", ", rank);
  const std::string refusal = acceptor.last_refusal();
  throw CommError(concat(
      "rank 0: no connection from rank ", names,
      ", the first of its host, to the monitor; check that the hosts can reach "
      "each other by TCP, or set SHEAF_INTERFACE to the interface to use",
      refusal.empty() ? "" : concat(" (", refusal, ")")));
}

void Monitor::connect_to_hub(const MonitorAddress& address) {
  std::vector<Address> theirs;
  for (std::uint32_t i = 0;
       i < std::min<std::size_t>(address.count, MonitorAddress::kMaxAddresses);
       ++i)
    theirs.push_back({address.hosts[i].ip, address.hosts[i].prefix_bits});
  Connection connection =
      connect_to({.endpoints = endpoints_of(
                      by_nearness(theirs, list_addresses("")), address.port),
                  .me = party_of(world_, address),
                  .peer = 0,
                  .deadline = steady_clock::now() + kStartTimeout});
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
    std::vector<std::byte> payload;
    const auto append = [&](const auto& value) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      payload.insert(payload.end(), bytes, bytes + sizeof value);
    };
    append(EndHead{world_.local_ranks()[local]});
    end.for_each_group(append);
    send_to_others(nullptr, kEnd, payload);
  }
}

void Monitor::forward_alarms() {
  sent_alarms_.for_each_new(memory_.alarm(), [this](const AlarmRecord& record) {
    send_to_others(nullptr, kAlarm, bytes_of(record));
  });
}

void Monitor::forward_refresh() {
  const std::uint32_t wanted = memory_.header(0).refreshes_wanted.load();
  if (wanted == refreshes_sent_) return;
  refreshes_sent_ = wanted;
  send_to_others(nullptr, kAsk);
}

bool Monitor::is_remote(int rank) const {
  return rank >= 0 && rank < world_.size() && !world_.is_local(rank);
}

void Monitor::handle(Peer& from, const FrameBuffer::Frame& frame) {
  switch (frame.kind) {
    case kAlarm:
      return take_alarm(frame.payload);
    case kAsk:
      send_status_to(from);
      return send_to_others(&from, kAsk);
    case kStatus:
      return take_status(from, frame.payload);
    case kEnd:
      return take_end(from, frame.payload);
    case kBye:
      from.has_left = true;
      return;
    default:
      return;  // of a later version
  }
}

void Monitor::take_alarm(std::span<const std::byte> payload) {
  auto record = value_in<AlarmRecord>(payload);
  if (!record || record->kind > AlarmKind::kTooMany || record->rank < -1 ||
      record->rank >= world_.size())
    return;
  record->text[sizeof record->text - 1] = '\0';
  memory_.alarm().raise(record->kind, record->rank, record->group,
                        record->text);
}

void Monitor::take_status(Peer& from, std::span<const std::byte> payload) {
  auto status = value_in<Status>(payload);
  if (!status || !is_remote(status->rank) || !is_valid(status->record)) return;
  send_to_others(&from, kStatus, payload);
  const std::int64_t now = now_ns();
  status->record.start_ns = now - status->record.start_ns;
  status->record.end_ns = now - status->record.end_ns;
  memory_.board(status->rank).mirror(status->record);
}

void Monitor::take_end(Peer& from, std::span<const std::byte> payload) {
  EndHead head{};
  if (payload.size() < sizeof head) return;
  std::memcpy(&head, payload.data(), sizeof head);
  if (!is_remote(head.rank)) return;
  RankEnd& end = memory_.remote_end(head.rank);
  for (std::size_t at = sizeof head; at + sizeof(CallNumber) <= payload.size();
       at += sizeof(CallNumber)) {
    CallNumber call;
    std::memcpy(&call, payload.data() + at, sizeof call);
    if (call.group >= 0 && call.group <= kPlainCalls) end.note_call(call);
  }
  end.note_end();
  send_to_others(&from, kEnd, payload);
}

void Monitor::send_status_to(Peer& peer) {
  for (int local = 0; local < memory_.local_size(); ++local) {
    auto record = memory_.header(local).flight.latest();
    if (!record) continue;
    const std::int64_t now = now_ns();
    Status status{world_.local_ranks()[static_cast<std::size_t>(local)],
                  *record};
    status.record.start_ns = now - record->start_ns;
    status.record.end_ns = now - record->end_ns;
    peer.link.send(kStatus, bytes_of(status));
  }
}

void Monitor::send_to_others(const Peer* from, std::uint32_t kind,
                             std::span<const std::byte> payload) {
  for (Peer& peer : peers_)
    if (&peer != from && peer.link.is_open()) peer.link.send(kind, payload);
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
  send_to_others(nullptr, kBye);
  flush_all();
}

}  // namespace sheaf::comm
