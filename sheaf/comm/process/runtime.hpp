#pragma once
// The per-process state that all groups use: the transport, the shared memory
// of the host, and the monitor of other hosts.

#include <atomic>
#include <bitset>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/comm/host/host_map.hpp"
#include "sheaf/comm/host/host_memory.hpp"
#include "sheaf/comm/process/attachments.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "sheaf/topo/machine.hpp"
#include "sheaf/topo/options.hpp"

namespace sheaf::comm {

class Monitor;
class Mailroom;
class Rescue;

inline constexpr std::chrono::milliseconds kDefaultTimeout =
    std::chrono::minutes(5);
using GroupIds = std::bitset<kMaxGroups>;

struct RuntimeOptions {
  topo::Options options;
  std::optional<std::string> host{};  // overrides the host name, for tests
  std::size_t arena_bytes = 0;        // address space of a rank's heap; 0: auto
};

class Runtime {
 public:
  // Collective: every rank of the transport must construct one at the same
  // time.
  Runtime(std::unique_ptr<Transport> transport, RuntimeOptions options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  int rank() const { return host_map_.rank; }
  int size() const { return host_map_.size(); }
  const HostMap& host_map() const { return host_map_; }
  const std::vector<std::string>& host_names() const { return host_names_; }
  const topo::Options& options() const { return options_; }
  const topo::Machine& machine() const { return machine_; }
  bool is_oversubscribed() const { return is_oversubscribed_; }
  bool has_guard() const { return has_guard_; }
  // For measuring the cost of the guard. All ranks must switch between the same
  // two calls, while none of their groups is in a call.
  void set_guard(bool on) { has_guard_ = on; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  // Whether the memory of the host's ranks is known, with their deaths. False
  // only while the runtime is constructed. Any thread may call it.
  bool has_connected() const { return has_connected_.load(); }
  // Throws CommError if a rank of this host is dead: for waits during the
  // start.
  void check_local_lives();

  Transport& transport() { return *transport_; }
  HostMemory& memory() { return *memory_; }
  // For owners of blocks that may outlive all groups.
  const std::shared_ptr<HostMemory>& shared_memory() const { return memory_; }
  Mailroom& mailroom() { return *mailroom_; }

  // The latest known operation of a rank of the world.
  std::optional<FlightRecord> latest(int rank) const;
  // The calls and the end of a rank of the world. Ends on other hosts are known
  // with a short delay.
  const RankEnd& end_of(int rank) const;
  RankEnd& my_end() { return memory_->header(host_map_.local).end; }
  // Requests the latest operations from other hosts; waits up to 0.3 s for the
  // answers.
  void refresh_remote() const;

  // Notifies all ranks, on this host and on others.
  void raise(AlarmKind kind, int rank, int group, const std::string& text);
  // After a failure, finalize() does not wait for peers.
  void mark_failed() { has_failed_ = true; }
  bool has_failed() const { return has_failed_; }

  // Objects of higher layers that concern the whole world.
  Attachments& attachments() { return attachments_; }

  // Number of collectives in progress on any thread.
  int calls() const { return calls_.load(); }
  void add_calls(int change) { calls_.fetch_add(change); }

  GroupIds used_ids();
  void take_id(int id);
  void release_id(int id);

  // Ends the communication; orderly unless mark_failed() was called. No other
  // function may use the runtime's transport afterwards.
  void finalize();
  bool is_finalized() const { return is_finalized_; }

 private:
  // Throws CommError if a rank of this host, or the peer, is gone.
  void check_start(int peer);
  void exchange_cards(const std::optional<std::string>& host,
                      std::size_t arena_bytes);
  // Number of status reports received from another host about this rank.
  std::uint64_t news_of(int rank) const;

  std::unique_ptr<Transport> transport_;
  topo::Options options_;
  topo::Machine machine_;
  std::shared_ptr<HostMemory> memory_;
  HostMap host_map_;
  std::vector<std::string> host_names_;
  std::unique_ptr<Mailroom> mailroom_;
  std::unique_ptr<Monitor> monitor_;  // with several hosts, on first ranks only
  std::unique_ptr<Rescue> rescue_;    // if the transport's library can hang
  std::chrono::milliseconds timeout_{kDefaultTimeout};
  bool is_oversubscribed_ = false;
  bool has_guard_ = true;
  std::atomic<bool> has_connected_{false};
  std::atomic<bool> has_failed_{false};
  bool is_finalized_ = false;
  std::mutex mutex_;
  GroupIds ids_;
  std::atomic<int> calls_{0};
  Attachments attachments_;
};

}  // namespace sheaf::comm
