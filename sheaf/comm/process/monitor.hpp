#pragma once
// Monitors other hosts: the first rank of every host holds a TCP connection to
// rank 0. A connection that closes without a good-bye is treated as a death;
// the kernel closes it within milliseconds when a process is killed. A host
// whose kernel no longer acknowledges heartbeats is lost, with all of its
// ranks; a process that is only stopped or busy is not. The same connections
// carry alarms, ends of programs that others may still wait for, and status
// requests.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sheaf/comm/host/host_map.hpp"
#include "sheaf/comm/host/host_memory.hpp"
#include "sheaf/comm/network/acceptor.hpp"
#include "sheaf/comm/network/frame_link.hpp"
#include "sheaf/comm/process/monitor_messages.hpp"

namespace sheaf::comm {

// Opens a listening socket and sets its address: on the addresses `mine`, or if
// there are none on SHEAF_INTERFACE, or on all interfaces.
Socket listen_for_peers(MonitorAddress& address,
                        std::vector<Address> mine = {});

struct MonitorStart {
  MonitorAddress address{};
  Socket listening{};  // empty on ranks other than 0
  std::chrono::milliseconds timeout{};
  // Called while this rank waits for the connection of a rank; may throw.
  std::function<void(int rank)> check{};
};

class Monitor {
 public:
  // Throws CommError if a host cannot be reached within 10 seconds, or does not
  // connect within the timeout.
  Monitor(HostMemory& memory, const HostMap& world, MonitorStart start);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Stops the thread and sends good-bye to all hosts.
  void leave();

 private:
  struct Peer {
    int rank;
    FrameLink link;
    bool has_left = false;
  };

  void accept_peers(MonitorStart& start);
  void connect_to_hub(const MonitorStart& start);
  std::vector<int> missing_peers(const std::vector<int>& present) const;
  [[noreturn]] static void fail_start(const std::vector<int>& missing,
                                      const std::string& refusal);
  void run();
  void stop();
  void serve(Peer& peer, std::chrono::steady_clock::time_point now);
  void watch_local_ranks();
  void watch_local_ends();
  void forward_alarms();
  void forward_refresh();
  void handle(Peer& from, const FrameBuffer::Frame& frame);
  void take_alarm(std::span<const std::byte> payload);
  void take_status(Peer& from, std::span<const std::byte> payload);
  void take_end(Peer& from, std::span<const std::byte> payload);
  void send_status_to(Peer& peer);
  void send_to(Peer& peer, MonitorMessage kind,
               std::span<const std::byte> payload);
  void send_to_others(const Peer* from, MonitorMessage kind,
                      std::span<const std::byte> payload = {});
  void flush_all();
  void lose(Peer& peer);
  void lose_host(Peer& peer);

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
