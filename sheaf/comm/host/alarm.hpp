#pragma once
// Failures that the ranks of a host share with each other: a rank died, or a
// group failed. Lives in shared memory; zeroed memory is a valid empty Alarm.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace sheaf::comm {

enum class AlarmKind : std::uint32_t { kRankDied, kMismatch, kGroupFailed };

struct AlarmRecord {
  AlarmKind kind;
  std::int32_t rank;   // world rank that died or that raised the alarm
  std::int32_t group;  // key of the group that failed; -1 for a death
  char text[500];      // the whole message, zero-terminated
};

class Alarm {
 public:
  // Adds a record unless there is one for the same death or group.
  void raise(AlarmKind kind, int rank, int group,
             std::string_view text) noexcept;
  std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  // A record does not change once it is included in count().
  const AlarmRecord& record(std::uint32_t index) const {
    return records_[index];
  }

 private:
  static constexpr std::uint32_t kCapacity = 64;

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> locked_{0};
  std::array<AlarmRecord, kCapacity> records_{};
};

}  // namespace sheaf::comm
