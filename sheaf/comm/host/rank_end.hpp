#pragma once
// The last call that a rank has made in each group, and whether its program has
// ended. Lives in shared memory; zeroed memory represents a running rank that
// has made no calls.

#include <array>
#include <atomic>
#include <cstdint>

namespace sheaf::comm {

inline constexpr int kMaxGroups = 1024;
// Pseudo group that counts calls of the transport's library outside of any
// group.
inline constexpr int kPlainCalls = kMaxGroups;

// One call of one group. Group ids are reused; the serial number, which is the
// same on all members, distinguishes groups with the same id.
struct CallNumber {
  std::int32_t group = 0;
  std::uint32_t serial = 0;
  std::uint32_t sequence = 0;
};

class RankEnd {
 public:
  // Called by the rank itself when a call begins or, with sequence 0, when it
  // joins a group.
  void note_call(const CallNumber& call) noexcept {
    calls_[static_cast<std::size_t>(call.group)].store(
        std::uint64_t{call.serial} << 32 | call.sequence,
        std::memory_order_release);
  }
  // Called by the rank itself when asynchronous calls are queued or completed.
  void add_queued(int change) noexcept { queued_.fetch_add(change); }
  // Called by the rank itself, at its last call.
  void note_end() noexcept { is_at_end_.store(1); }

  // The last call in a group.
  CallNumber last(int group) const noexcept {
    return unpack(group, at(group).load());
  }
  // Whether the rank will make no more calls.
  bool has_ended() const noexcept {
    return is_at_end_.load() != 0 && queued_.load() == 0;
  }
  // Whether the rank has made that call. Final once the rank has ended. Also
  // true if it has released the group and uses the id for another group.
  bool has_made(const CallNumber& call) const noexcept {
    const CallNumber mine = last(call.group);
    return mine.serial != call.serial ||
           static_cast<std::int32_t>(mine.sequence - call.sequence) >= 0;
  }

  // Calls fn(CallNumber) for the last call in each group.
  template <class Fn>
  void for_each_group(Fn fn) const {
    for (int group = 0; group <= kPlainCalls; ++group)
      if (const std::uint64_t word = at(group).load(); word != 0)
        fn(unpack(group, word));
  }

 private:
  const std::atomic<std::uint64_t>& at(int group) const {
    return calls_[static_cast<std::size_t>(group)];
  }
  static CallNumber unpack(int group, std::uint64_t word) {
    return {group, static_cast<std::uint32_t>(word >> 32),
            static_cast<std::uint32_t>(word)};
  }

  std::atomic<std::uint32_t> is_at_end_{0};
  std::atomic<std::int32_t> queued_{0};
  // By group id: serial number (high 32 bits) and sequence number.
  std::array<std::atomic<std::uint64_t>, kPlainCalls + 1> calls_{};
};

}  // namespace sheaf::comm
