#pragma once
// The members of a group on one host, and the shared memory through which they
// communicate. Each member has a block with two arrival slots (used alternately
// by successive operations), three progress counters, and staging space for
// buffers outside the arena.

#include <array>
#include <cstring>
#include <vector>

#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/comm/host/futex.hpp"
#include "sheaf/comm/host/host_memory.hpp"

namespace sheaf::comm {

// Messages up to this size are passed on arrival; those up to kInlineBytes are
// stored in the arrival slot itself.
inline constexpr std::size_t kSmallBytes = 16384;
inline constexpr std::size_t kInlineBytes = 32;
// Staging buffers of a member: their number and size.
inline constexpr int kStageSlots = 4;
inline constexpr std::size_t kMaxSegmentBytes = std::size_t{1} << 20;

// Published by a rank when it enters an operation. One cache line.
struct alignas(64) Slot {
  Counter sequence;
  std::atomic<std::uint32_t> sleepers{0};
  Fingerprint call;
  std::array<std::byte, kInlineBytes> data{};
};
static_assert(sizeof(Slot) == 64);

// Numbers of segments over the lifetime of the group. Written only by the rank
// itself.
struct alignas(64) Progress {
  Counter staged;  // its staging buffer holds its input; others may write
  Counter ready;   // its chunks of the result are in all staging buffers
  Counter taken;   // it has finished reading the other staging buffers
  std::atomic<std::uint32_t> sleepers{0};
};

struct alignas(4096) MemberBlock {
  std::array<Slot, 2> slots;
  Progress progress;
  alignas(64) std::array<std::array<std::byte, kSmallBytes>, 2> small;
  alignas(4096) std::byte staging[kStageSlots][kMaxSegmentBytes];
};

class LocalGroup {
 public:
  // Number of bytes needed in the heap of the host's first member, for `ranks`
  // members; they must be zero. Pages are allocated on first access.
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
  // The staging buffer in which a member puts a segment and reads its result.
  std::byte* staging(int member, std::size_t segment) const {
    return block(member).staging[segment % kStageSlots];
  }

  // Publishes this rank's arrival at a call, with `bytes` bytes for all
  // members.
  void arrive(const Fingerprint& call, const void* data, std::size_t bytes);
  // The data that `member` passed to arrive(). Valid once its slot has reached
  // the sequence number.
  const std::byte* payload(int member, std::uint32_t sequence,
                           std::size_t bytes) const;

  // Leaves the group. Returns true for the last member on the host, which must
  // return the region.
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
