#include "sheaf/comm/process/monitor.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kPollSlice = milliseconds(20);
constexpr auto kWatchPeriod = milliseconds(50);
constexpr auto kConnectTimeout = milliseconds(2000);

enum Kind : std::uint32_t { kAlarm, kAsk, kStatus, kBye, kEnd };

struct MessageHead {
  std::uint32_t kind;
  std::uint32_t bytes;
};

struct MonitorHello {
  std::uint64_t token;
  std::int32_t rank;
};

// The times in the record are ages, since the clocks of hosts differ.
struct Status {
  std::int32_t rank;
  FlightRecord record;
};

// Followed by the CallNumbers of the rank's groups.
struct EndHead {
  std::int32_t rank;
};

bool send_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t bytes) {
  return ::recv(fd, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

bool is_readable(int fd, milliseconds timeout) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
}

int connect_within(std::uint32_t address, std::uint16_t port,
                   milliseconds timeout) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = address;
  name.sin_port = port;
  int result = connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof name);
  if (result != 0 && errno == EINPROGRESS) {
    pollfd entry{fd, POLLOUT, 0};
    int error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (poll(&entry, 1, static_cast<int>(timeout.count())) > 0)
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    result = error;
  }
  if (result != 0) {
    close(fd);
    return -1;
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

void add_addresses_of_host(MonitorAddress& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  // Loopback comes last: it is used only by simulated hosts (SHEAF_HOSTS).
  for (const bool loopback : {false, true})
    for (const ifaddrs* it = list; it; it = it->ifa_next) {
      if (!it->ifa_addr || it->ifa_addr->sa_family != AF_INET) continue;
      if (!(it->ifa_flags & IFF_UP) ||
          loopback != static_cast<bool>(it->ifa_flags & IFF_LOOPBACK))
        continue;
      if (address.count == MonitorAddress::kMaxAddresses) break;
      address.addresses[address.count++] =
          reinterpret_cast<const sockaddr_in*>(it->ifa_addr)->sin_addr.s_addr;
    }
  freeifaddrs(list);
}

}  // namespace

int listen_for_peers(MonitorAddress& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  socklen_t length = sizeof name;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&name), length) != 0 ||
      listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0)
    throw CommError(concat("cannot listen for other hosts: ", strerror(errno)));
  address.port = name.sin_port;
  std::random_device random;
  address.token = (std::uint64_t{random()} << 32) | random();
  add_addresses_of_host(address);
  return fd;
}

Monitor::Monitor(HostMemory& memory, const HostMap& world,
                 const MonitorAddress& address, int listening_fd)
    : memory_(memory),
      world_(world),
      ends_(static_cast<std::size_t>(memory.local_size()), EndNews::kNone) {
  if (listening_fd >= 0)
    accept_peers(address, listening_fd);
  else
    connect_to_hub(address);
  thread_ = std::thread([this] { run(); });
}

Monitor::~Monitor() {
  stop();
  // The cause of a failure is more useful to other hosts than a closed
  // connection.
  forward_alarms();
  for (const Peer& peer : peers_)
    if (peer.fd >= 0) close(peer.fd);
}

void Monitor::accept_peers(const MonitorAddress& address, int listening_fd) {
  const auto deadline = steady_clock::now() + 5 * kConnectTimeout;
  const auto expected = static_cast<std::size_t>(world_.host_count() - 1);
  while (peers_.size() < expected && steady_clock::now() < deadline) {
    if (!is_readable(listening_fd, kPollSlice)) continue;
    const int fd = accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC);
    MonitorHello hello{};
    if (fd >= 0 && is_readable(fd, kConnectTimeout) &&
        receive_all(fd, &hello, sizeof hello) && hello.token == address.token)
      peers_.push_back({hello.rank, fd});
    else if (fd >= 0)
      close(fd);
  }
  close(listening_fd);
  if (peers_.size() < expected)
    throw CommError(concat("rank 0: only ", peers_.size(), " of ", expected,
                           " other hosts connected to the monitor; check that "
                           "the hosts can reach each other by TCP"));
}

void Monitor::connect_to_hub(const MonitorAddress& address) {
  for (std::uint32_t i = 0; i < address.count; ++i) {
    const int fd =
        connect_within(address.addresses[i], address.port, kConnectTimeout);
    if (fd < 0) continue;
    const MonitorHello hello{address.token, world_.rank};
    if (send_all(fd, &hello, sizeof hello)) {
      peers_.push_back({0, fd});
      return;
    }
    close(fd);
  }
  throw CommError(concat("rank ", world_.rank,
                         ": cannot reach rank 0 by TCP at any of its ",
                         address.count,
                         " addresses; check the network and "
                         "firewall between the hosts"));
}

void Monitor::run() {
  std::vector<pollfd> entries;
  while (!is_stopping_) {
    entries.clear();
    for (const Peer& peer : peers_)
      entries.push_back({peer.fd, POLLIN, 0});  // poll() ignores negative fds
    poll(entries.data(), entries.size(), static_cast<int>(kPollSlice.count()));
    for (std::size_t i = 0; i < peers_.size(); ++i)
      if (entries[i].revents && peers_[i].fd >= 0) read_from(peers_[i]);
    watch_local_ranks();
    forward_alarms();
    forward_refresh();
  }
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
    send_to_others(nullptr, kEnd, payload.data(), payload.size());
  }
}

void Monitor::forward_alarms() {
  sent_alarms_.for_each_new(memory_.alarm(), [this](const AlarmRecord& record) {
    send_to_others(nullptr, kAlarm, &record, sizeof record);
  });
}

void Monitor::forward_refresh() {
  const std::uint32_t wanted = memory_.header(0).refreshes_wanted.load();
  if (wanted == refreshes_sent_) return;
  refreshes_sent_ = wanted;
  send_to_others(nullptr, kAsk, nullptr, 0);
}

void Monitor::read_from(Peer& peer) {
  std::byte bytes[4096];
  const ssize_t got = ::recv(peer.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return lose(peer);
  peer.unread.insert(peer.unread.end(), bytes, bytes + got);
  std::size_t at = 0;
  for (;;) {
    MessageHead frame{};
    const std::size_t left = peer.unread.size() - at;
    if (left < sizeof frame) break;
    std::memcpy(&frame, peer.unread.data() + at, sizeof frame);
    if (left < sizeof frame + frame.bytes) break;
    handle(peer, frame.kind,
           {peer.unread.data() + at + sizeof frame, frame.bytes});
    at += sizeof frame + frame.bytes;
  }
  peer.unread = {peer.unread.begin() + static_cast<long>(at),
                 peer.unread.end()};
}

void Monitor::handle(Peer& from, std::uint32_t kind,
                     std::span<const std::byte> payload) {
  if (kind == kAlarm) {
    AlarmRecord record;
    std::memcpy(&record, payload.data(), sizeof record);
    memory_.alarm().raise(record.kind, record.rank, record.group, record.text);
  } else if (kind == kAsk) {
    send_status_to(from);
    send_to_others(&from, kAsk, nullptr, 0);
  } else if (kind == kStatus) {
    Status status;
    std::memcpy(&status, payload.data(), sizeof status);
    send_to_others(&from, kStatus, &status, sizeof status);
    const std::int64_t now = now_ns();
    status.record.start_ns = now - status.record.start_ns;
    status.record.end_ns = now - status.record.end_ns;
    memory_.board(status.rank).mirror(status.record);
  } else if (kind == kEnd) {
    take_end(from, payload);
  } else if (kind == kBye) {
    from.has_left = true;
  }
}

void Monitor::take_end(Peer& from, std::span<const std::byte> payload) {
  EndHead head{};
  if (payload.size() < sizeof head) return;
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.rank < 0 || head.rank >= world_.size()) return;
  RankEnd& end = memory_.remote_end(head.rank);
  for (std::size_t at = sizeof head; at + sizeof(CallNumber) <= payload.size();
       at += sizeof(CallNumber)) {
    CallNumber call;
    std::memcpy(&call, payload.data() + at, sizeof call);
    if (call.group >= 0 && call.group <= kPlainCalls) end.note_call(call);
  }
  end.note_end();
  send_to_others(&from, kEnd, payload.data(), payload.size());
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
    send_to(peer, kStatus, &status, sizeof status);
  }
}

void Monitor::send_to(Peer& peer, std::uint32_t kind, const void* payload,
                      std::size_t bytes) {
  if (peer.fd < 0) return;
  const MessageHead frame{kind, static_cast<std::uint32_t>(bytes)};
  if (!send_all(peer.fd, &frame, sizeof frame) ||
      !send_all(peer.fd, payload, bytes))
    lose(peer);
}

void Monitor::send_to_others(const Peer* from, std::uint32_t kind,
                             const void* payload, std::size_t bytes) {
  for (Peer& peer : peers_)
    if (&peer != from) send_to(peer, kind, payload, bytes);
}

void Monitor::lose(Peer& peer) {
  if (peer.fd >= 0) close(peer.fd);
  peer.fd = -1;
  if (!peer.has_left)
    memory_.alarm().raise(AlarmKind::kRankDied, peer.rank, -1, "");
}

void Monitor::stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Monitor::leave() {
  stop();
  send_to_others(nullptr, kBye, nullptr, 0);
}

}  // namespace sheaf::comm
