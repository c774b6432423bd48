#pragma once
// The part of a group that shares one host: where its ranks meet. Each has a
// block with two arrival slots (used in turn by successive operations), three
// progress counters, and staging space for buffers outside the arena.

#include <array>
#include <cstring>
#include <vector>

#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/comm/host/futex.hpp"
#include "sheaf/comm/host/host_memory.hpp"

namespace sheaf::comm {

// Up to this size a message travels in the arrival slot itself.
inline constexpr std::size_t kSmallBytes = 16384;
inline constexpr std::size_t kInlineBytes = 32;
// Staging space: this many pieces, of at most this size.
inline constexpr int kStageSlots = 4;
inline constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 20;

// One cache line: what a rank says when it enters an operation.
struct alignas(64) Slot {
  Counter sequence;
  std::atomic<std::uint32_t> sleepers{0};
  Fingerprint call;
  std::array<std::byte, kInlineBytes> data{};
};
static_assert(sizeof(Slot) == 64);

// Counts pieces over the life of the group. One writer: the rank itself.
struct alignas(64) Progress {
  Counter staged;  // its place holds its input, and may be written
  Counter ready;   // its share of the result is in everyone's place
  Counter taken;   // it has read what it needs of others' places
  std::atomic<std::uint32_t> sleepers{0};
};

struct alignas(4096) MemberBlock {
  std::array<Slot, 2> slots;
  Progress progress;
  alignas(64) std::array<std::array<std::byte, kSmallBytes>, 2> small;
  alignas(4096) std::byte places[kStageSlots][kMaxPieceBytes];
};

class LocalGroup {
 public:
  // The bytes that a host with `ranks` members needs in its first member's
  // heap; they must be zero. Memory is taken as it is touched.
  static std::size_t region_bytes(int ranks);
  static void initialize(std::byte* region, int ranks);

  LocalGroup() = default;
  LocalGroup(std::byte* region, int ranks, int me);

  int size() const { return static_cast<int>(members_.size()); }
  int me() const { return me_; }

  Slot& slot(int member, std::uint32_t sequence) const {
    return block(member).slots[sequence & 1];
  }
  Progress& progress(int member) const { return block(member).progress; }
  // Where a member stages a piece, and finds the result of one.
  std::byte* place(int member, std::size_t piece) const {
    return block(member).places[piece % kStageSlots];
  }

  // Says "I am here, with this call" together with some bytes for all.
  void arrive(const Fingerprint& call, const void* data, std::size_t bytes);
  // What `member` gave to arrive(), once its slot has the sequence.
  const std::byte* payload(int member, std::uint32_t sequence,
                           std::size_t bytes) const;

  // Leaves; true for the last of the host, who returns the region.
  bool leave();

 private:
  MemberBlock& block(int member) const {
    return *members_[static_cast<std::size_t>(member)];
  }

  int me_ = 0;
  std::vector<MemberBlock*> members_;
  std::atomic<std::uint32_t>* open_count_ = nullptr;
};

}  // namespace sheaf::comm
