#pragma once
// Failures that the ranks of a host tell each other: a rank died, a group is
// broken. Lives in shared memory; all zero is an empty one.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace sheaf::comm {

enum class AlarmKind : std::uint32_t { kRankDied, kMismatch, kGroupFailed };

struct AlarmRecord {
  AlarmKind kind;
  std::int32_t rank;   // in the world: who died, or who raised the alarm
  std::int32_t group;  // which group is broken; -1 for a death
  char text[500];      // the whole message, zero-terminated
};

class Alarm {
 public:
  // Adds a record unless one of the same death or group is there.
  void raise(AlarmKind kind, int rank, int group,
             std::string_view text) noexcept;
  std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  // Records never change once they are counted.
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
