#pragma once
// The shared memory of the ranks of one host: each rank's heap, mapped by all.

#include <memory>
#include <vector>

#include "sheaf/comm/host/alarm.hpp"
#include "sheaf/comm/host/flight.hpp"
#include "sheaf/comm/host/heap.hpp"
#include "sheaf/comm/host/rank_end.hpp"

namespace sheaf::comm {

// Blocks of the first rank's heap that others have finished with; the owner
// takes them back when it next allocates.
class ReturnedBlocks {
 public:
  void put(std::uint64_t offset) noexcept;
  std::uint64_t take() noexcept;  // 0 when there is none

 private:
  std::array<std::atomic<std::uint64_t>, 256> offsets_{};
};

// At the start of every heap.
struct RankHeader {
  FlightRing flight;
  std::atomic<std::uint32_t> has_left{0};  // ended in an orderly way
  RankEnd end;
  // Of the host; the first rank's are used.
  Alarm alarm;
  ReturnedBlocks returned;
  std::atomic<std::uint64_t> board{0};  // offset of what other hosts said
  std::atomic<std::uint64_t> ends{0};   // offset of how their ranks ended
  std::atomic<std::uint32_t> refreshes_wanted{0};
};

// How a peer's heap is found.
struct HeapName {
  std::int32_t pid;
  std::int32_t fd;
  std::uint64_t bytes;
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
  enum class Life { kAlive, kLeft, kDead };
  Life life_of(int local) const;
  // Ends in an orderly way: peers will not take it for a death.
  void leave();

  std::byte* base(int local) const;
  bool is_mine(const void* data, std::size_t bytes) const {
    return heap_.segment().contains(data, bytes);
  }
  std::uint64_t offset(const void* data) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) -
                                      heap_.segment().data());
  }
  // The newest operation of a rank of another host, by rank of the world.
  FlightRing& board(int rank) const;
  // The calls and the end of a rank of another host, by rank of the world.
  RankEnd& remote_end(int rank) const;
  void make_board(int ranks);  // by the first rank, of both
  // Frees the blocks that other ranks have returned.
  void collect_returned();
  // Lets the peers believe that this rank has died: for tests with threads.
  void play_dead() { heap_.segment().unlock(); }

 private:
  Heap heap_;
  int mine_ = 0;
  std::vector<Segment> peers_;  // empty segment at mine_
};

}  // namespace sheaf::comm
