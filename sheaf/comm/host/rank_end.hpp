#pragma once
// What others must know of a rank whose program has ended: the last call that
// it has made in each group. Lives in shared memory; all zero is a rank that
// runs and has made none.

#include <array>
#include <atomic>
#include <cstdint>

namespace sheaf::comm {

inline constexpr int kMaxGroups = 1024;
// Stands for a group where calls of the transport's library are counted that
// are no calls of any group.
inline constexpr int kPlainCalls = kMaxGroups;

// One call of one group. Ids of groups are reused; the serial, which is the
// same on all members, distinguishes them.
struct CallNumber {
  std::int32_t group = 0;
  std::uint32_t serial = 0;
  std::uint32_t sequence = 0;
};

class RankEnd {
 public:
  // Called by the rank itself: a call begins, or, with sequence 0, a group.
  void note_call(const CallNumber& call) noexcept;
  // Called by the rank itself: asynchronous calls are queued or have ended.
  void add_queued(int change) noexcept { queued_.fetch_add(change); }
  // Called by the rank itself, at its last call.
  void note_end() noexcept { is_at_end_.store(1); }

  // The last call in a group.
  CallNumber last(int group) const noexcept {
    return unpack(group, at(group).load());
  }
  // Whether the rank makes no more calls.
  bool has_ended() const noexcept {
    return is_at_end_.load() != 0 && queued_.load() == 0;
  }
  // Whether the rank has made that call; final when it has ended. Also true
  // when it has released the group and uses the id for another.
  bool has_made(const CallNumber& call) const noexcept;

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
  // By group: its serial, then the sequence number.
  std::array<std::atomic<std::uint64_t>, kPlainCalls + 1> calls_{};
};

}  // namespace sheaf::comm
