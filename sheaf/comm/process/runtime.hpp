#pragma once
// Everything that a process has once: its transport, the shared memory of its
// host, the watch over other hosts. Groups stand on it.

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
  std::optional<std::string> host{};  // instead of this host's name: for tests
  std::size_t arena_bytes = 0;        // address space of a rank's heap; 0: auto
};

class Runtime {
 public:
  // Every rank of the transport constructs one at the same time.
  Runtime(std::unique_ptr<Transport> transport, RuntimeOptions options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  int rank() const { return layout_.rank; }
  int size() const { return layout_.size(); }
  const Layout& layout() const { return layout_; }
  const std::vector<std::string>& host_names() const { return host_names_; }
  const topo::Options& options() const { return options_; }
  const topo::Machine& machine() const { return machine_; }
  bool is_oversubscribed() const { return is_oversubscribed_; }
  bool has_guard() const { return has_guard_; }
  // For measuring what it costs. All ranks switch between the same two calls,
  // and none of their groups is in a call meanwhile.
  void set_guard(bool on) { has_guard_ = on; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  Transport& transport() { return *transport_; }
  HostMemory& memory() { return *memory_; }
  // For those whose blocks may outlive all groups.
  const std::shared_ptr<HostMemory>& shared_memory() const { return memory_; }
  Mailroom& mailroom() { return *mailroom_; }

  // The newest operation of a rank of the world, as far as it is known here.
  std::optional<FlightRecord> latest(int rank) const;
  // The calls and the end of a rank of the world. Ends on other hosts are known
  // with a short delay.
  const RankEnd& end_of(int rank) const;
  RankEnd& my_end() { return memory_->header(layout_.local).end; }
  // Asks the other hosts where their ranks are; waits a moment for answers.
  void refresh_remote() const;

  // Tells all ranks, of this host and of others.
  void raise(AlarmKind kind, int rank, int group, const std::string& text);
  // After a failure the end is not orderly: nothing waits for peers.
  void mark_failed() { has_failed_ = true; }
  bool has_failed() const { return has_failed_; }

  // Whether the groups of this world shall use NCCL for what is on GPUs; a
  // higher layer does.
  bool uses_nccl() const { return uses_nccl_; }
  void set_nccl(bool is_on) { uses_nccl_ = is_on; }

  // Collectives that are under way on any thread.
  int calls() const { return calls_.load(); }
  void add_calls(int change) { calls_.fetch_add(change); }

  GroupIds used_ids();
  void take_id(int id);
  void release_id(int id);

  // An orderly end, called by the last rank function that uses the runtime.
  void finalize();
  bool is_finalized() const { return is_finalized_; }

 private:
  void exchange_cards(const std::optional<std::string>& host,
                      std::size_t arena_bytes);
  // How often another host has told of this rank.
  std::uint64_t news_of(int rank) const;

  std::unique_ptr<Transport> transport_;
  topo::Options options_;
  topo::Machine machine_;
  std::shared_ptr<HostMemory> memory_;
  Layout layout_;
  std::vector<std::string> host_names_;
  std::unique_ptr<Mailroom> mailroom_;
  std::unique_ptr<Monitor> monitor_;  // with several hosts, on first ranks
  std::unique_ptr<Rescue> rescue_;    // where the transport's library can hang
  std::chrono::milliseconds timeout_{kDefaultTimeout};
  bool is_oversubscribed_ = false;
  bool has_guard_ = true;
  std::atomic<bool> has_failed_{false};
  bool is_finalized_ = false;
  std::mutex mutex_;
  GroupIds ids_;
  std::atomic<int> calls_{0};
  std::atomic<bool> uses_nccl_{false};
};

}  // namespace sheaf::comm
