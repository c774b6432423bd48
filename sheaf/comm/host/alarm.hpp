#pragma once
// Failures that the ranks of a host share with each other: a rank died, or a
// group failed. Lives in shared memory; zeroed memory is a valid empty Alarm.
//
// Writers need no lock, since a process may be killed while it writes. A writer
// claims a record, fills it and then publishes it. A claimed record that is
// never published is skipped by all readers.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace sheaf::comm {

enum class AlarmKind : std::uint32_t {
  kRankDied,
  kMismatch,
  kGroupFailed,
  kTooMany  // more groups failed than there are records: any may have
};

struct AlarmRecord {
  AlarmKind kind;
  std::int32_t rank;   // world rank that died or that raised the alarm
  std::int32_t group;  // key of the group that failed; -1 for a death
  char text[500];      // the whole message, or the cause of a death; may be
                       // empty; zero-terminated
};

class Alarm {
 public:
  // Adds a record unless there is one for the same death or group. If there are
  // too many, deaths are noted without a text, and failures of groups as
  // kTooMany.
  void raise(AlarmKind kind, int rank, int group,
             std::string_view text) noexcept;

 private:
  friend class AlarmReader;
  static constexpr std::uint32_t kCapacity = 64;
  static constexpr int kMaxRanks = 1 << 16;

  struct AlarmSlot {
    std::atomic<std::uint64_t> key{0};  // 0: free; see key_of() in alarm.cpp
    std::atomic<std::uint32_t> is_published{0};
    AlarmRecord record{};
  };

  bool is_known(std::uint64_t key) const noexcept;
  long claims(std::uint64_t key) const noexcept;
  // A free record, or null if `most` records have this key or none is free.
  AlarmSlot* claim(std::uint64_t key, int most) noexcept;

  void raise_without_record(AlarmKind kind, int rank) noexcept;
  // Whether a death without a record was noted.
  bool is_dead(int rank) const noexcept {
    const auto bit = static_cast<std::size_t>(rank);
    return (deaths_[bit / 64].load() >> (bit % 64) & 1) != 0;
  }

  std::array<AlarmSlot, kCapacity> slots_{};
  std::atomic<std::uint32_t> more_deaths_{0};  // number of bits in deaths_
  std::atomic<std::uint32_t> has_too_many_{0};
  std::array<std::atomic<std::uint64_t>, kMaxRanks / 64> deaths_{};
};

// The position of one reader. Records may be published in another order than
// they were claimed in.
class AlarmReader {
 public:
  // Calls handle(record) for each published record that has not been handled;
  // deaths without a record may be handled repeatedly. A record whose handler
  // throws counts as not handled. The records do not change any more.
  template <class Handle>
  void for_each_new(const Alarm& alarm, const Handle& handle) {
    for (std::uint32_t i = 0; i < Alarm::kCapacity; ++i) {
      const Alarm::AlarmSlot& entry = alarm.slots_[i];
      if (entry.key.load(std::memory_order_relaxed) == 0) return;
      if ((handled_ >> i & 1) != 0 ||
          !entry.is_published.load(std::memory_order_acquire))
        continue;
      handle(entry.record);
      handled_ |= std::uint64_t{1} << i;
    }
    for_each_new_without_record(alarm, handle);
  }

 private:
  static_assert(Alarm::kCapacity <= 64);

  // For alarms that came when all records were in use.
  template <class Handle>
  void for_each_new_without_record(const Alarm& alarm, const Handle& handle) {
    const std::uint32_t deaths = alarm.more_deaths_.load();
    if (deaths != handled_deaths_) {
      for (int rank = 0; rank < Alarm::kMaxRanks; ++rank)
        if (alarm.is_dead(rank))
          handle(AlarmRecord{AlarmKind::kRankDied, rank, -1, ""});
      handled_deaths_ = deaths;
    }
    if (has_too_many_ || !alarm.has_too_many_.load()) return;
    handle(AlarmRecord{AlarmKind::kTooMany, -1, -1, ""});
    has_too_many_ = true;
  }

  std::uint64_t handled_ = 0;  // one bit for each record
  std::uint32_t handled_deaths_ = 0;
  bool has_too_many_ = false;
};

}  // namespace sheaf::comm
