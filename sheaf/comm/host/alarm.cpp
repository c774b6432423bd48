#include "sheaf/comm/host/alarm.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace sheaf::comm {
namespace {

bool is_same(const AlarmRecord& record, AlarmKind kind, int rank, int group) {
  const bool is_death = record.kind == AlarmKind::kRankDied;
  if (is_death != (kind == AlarmKind::kRankDied)) return false;
  return is_death ? record.rank == rank : record.group == group;
}

}  // namespace

void Alarm::raise(AlarmKind kind, int rank, int group,
                  std::string_view text) noexcept {
  // A process that was killed while holding the lock must not block the others,
  // so the number of attempts is limited.
  for (int i = 0; i < 1000 && locked_.exchange(1); ++i)
    std::this_thread::yield();
  const std::uint32_t count = count_.load(std::memory_order_acquire);
  const bool is_known =
      std::any_of(records_.begin(), records_.begin() + count,
                  [&](const auto& r) { return is_same(r, kind, rank, group); });
  if (!is_known && count < kCapacity) {
    AlarmRecord& record = records_[count];
    record.kind = kind;
    record.rank = rank;
    record.group = group;
    const std::size_t length = std::min(text.size(), sizeof(record.text) - 1);
    std::memcpy(record.text, text.data(), length);
    record.text[length] = '\0';
    count_.store(count + 1, std::memory_order_release);
  }
  locked_.store(0);
}

}  // namespace sheaf::comm
