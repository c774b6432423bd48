#pragma once
// Monitors other hosts: the first rank of every host holds a TCP connection to
// rank 0. A connection that closes without a good-bye is treated as a death;
// the kernel closes it within milliseconds when a process is killed. The same
// connections carry alarms, ends of programs that others may still wait for,
// and status requests.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sheaf/comm/host/host_map.hpp"
#include "sheaf/comm/host/host_memory.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

// The address at which rank 0 listens; sent to the first ranks of other hosts.
struct MonitorAddress {
  static constexpr std::size_t kMaxAddresses = 16;
  std::uint64_t token = 0;  // rejects connections of other programs
  std::uint32_t count = 0;
  std::uint32_t addresses[kMaxAddresses] = {};  // IPv4, network byte order
  std::uint16_t port = 0;
};

// Opens a listening socket on all interfaces and sets its address.
int listen_for_peers(MonitorAddress& address);

class Monitor {
 public:
  // Rank 0 passes its listening socket, whose ownership is taken; others pass
  // -1. Throws CommError if the hosts cannot connect.
  Monitor(HostMemory& memory, const HostMap& world,
          const MonitorAddress& address, int listening_fd);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Stops the thread and sends good-bye to all hosts.
  void leave();

 private:
  struct Peer {
    int rank;
    int fd;
    bool has_left = false;
    std::vector<std::byte> unread{};
  };

  void accept_peers(const MonitorAddress& address, int listening_fd);
  void connect_to_hub(const MonitorAddress& address);
  void run();
  void stop();
  void watch_local_ranks();
  void watch_local_ends();
  void forward_alarms();
  void forward_refresh();
  void read_from(Peer& peer);
  void handle(Peer& from, std::uint32_t kind,
              std::span<const std::byte> payload);
  void take_end(Peer& from, std::span<const std::byte> payload);
  void send_status_to(Peer& peer);
  void send_to(Peer& peer, std::uint32_t kind, const void* payload,
               std::size_t bytes);
  void send_to_others(const Peer* from, std::uint32_t kind, const void* payload,
                      std::size_t bytes);
  void lose(Peer& peer);

  HostMemory& memory_;
  const HostMap& world_;
  std::vector<Peer> peers_;
  AlarmReader sent_alarms_;
  std::uint32_t refreshes_sent_ = 0;
  // Whether the end of each rank of this host was seen, and sent to the others.
  enum class EndNews { kNone, kSeen, kSent };
  std::vector<EndNews> ends_;
  std::chrono::steady_clock::time_point last_watch_{};
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace sheaf::comm
