#pragma once
// The shared memory of one host: the heaps of all its ranks, mapped by every
// rank.

#include <memory>
#include <vector>

#include "sheaf/comm/host/alarm.hpp"
#include "sheaf/comm/host/flight.hpp"
#include "sheaf/comm/host/heap.hpp"
#include "sheaf/comm/host/rank_end.hpp"

namespace sheaf::comm {

// Blocks of the first rank's heap that other ranks have released. The owner
// frees them when it creates its next group.
class ReturnedBlocks {
 public:
  void put(std::uint64_t offset) noexcept;
  std::uint64_t take() noexcept;  // 0 if there is none

 private:
  std::array<std::atomic<std::uint64_t>, 256> offsets_{};
};

// Located at the start of every heap.
struct RankHeader {
  std::array<std::uint64_t, 2> nonce{};  // see HeapName
  FlightRing flight;
  enum Leave : std::uint32_t { kStays, kLeaves, kHasLeft };
  std::atomic<std::uint32_t> leave{kStays};
  RankEnd end;
  // State of the whole host: only the copy of the host's first rank is used.
  Alarm alarm;
  ReturnedBlocks returned;
  std::atomic<std::uint64_t> board{0};  // offset of the remote ranks' records
  std::atomic<std::uint64_t> ends{0};   // offset of the remote ranks' ends
  std::atomic<std::uint32_t> refreshes_wanted{0};
};

// The offsets of a call's buffers in the heap of their rank. Published on
// arrival, so that the other members of the host can access them in place.
struct SharedBuffers {
  static constexpr std::uint64_t kNotShared = ~std::uint64_t{0};
  std::uint64_t input = kNotShared;
  std::uint64_t output = kNotShared;
};

class HostMemory {
 public:
  explicit HostMemory(std::size_t heap_bytes);

  HeapName name() const;
  // Opens the heaps of the host's ranks, in order; `mine` is this rank's.
  void connect(const std::vector<HeapName>& names, int mine);

  int local_size() const { return static_cast<int>(peers_.size()); }
  Heap& heap() { return heap_; }
  RankHeader& header(int local) const;
  Alarm& alarm() const { return header(0).alarm; }
  // kLeft: has ended normally, or is about to. A process that ends in between
  // is dead.
  enum class Life { kAlive, kLeft, kDead };
  Life life_of(int local) const;
  // Call the first when an orderly end begins, and the second when nothing is
  // left to do for others, so that peers do not report a death.
  void begin_leave();
  void end_leave();

  std::byte* base(int local) const;
  bool is_mine(const void* data, std::size_t bytes) const {
    return heap_.file().contains(data, bytes);
  }
  std::uint64_t offset(const void* data) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) -
                                      heap_.file().data());
  }
  // Buffers that are null or outside of this rank's heap are not shared.
  SharedBuffers shared(const void* input, const void* output,
                       std::size_t bytes) const;
  // The latest operation of a rank of another host, by world rank.
  FlightRing& board(int rank) const;
  // The calls and the end of a rank of another host, by world rank.
  RankEnd& remote_end(int rank) const;
  // Allocates board() and remote_end(). Called by the host's first rank only.
  void make_board(int ranks);
  // Frees the blocks that other ranks have returned.
  void collect_returned();
  // Makes this rank appear dead to its peers: for tests with ranks as threads.
  void play_dead() { heap_.file().unlock(); }

 private:
  Heap heap_;
  int mine_ = 0;
  std::vector<MemoryFile> peers_;  // empty memory file at mine_
};

}  // namespace sheaf::comm
