#include "sheaf/comm/host/alarm.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace sheaf::comm {
namespace {

// The other writer of an alarm is usually about to publish it.
constexpr int kMaxYields = 1000;

// Equal for alarms about the same death or group; never 0.
std::uint64_t key_of(AlarmKind kind, int rank, int group) {
  const bool is_death = kind == AlarmKind::kRankDied;
  const auto number = static_cast<std::uint32_t>(is_death ? rank : group);
  return std::uint64_t{is_death ? 1u : 2u} << 32 | number;
}

}  // namespace

bool Alarm::is_known(std::uint64_t key) const noexcept {
  return std::any_of(slots_.begin(), slots_.end(), [&](const AlarmSlot& one) {
    return one.key.load(std::memory_order_relaxed) == key &&
           one.is_published.load(std::memory_order_acquire);
  });
}

long Alarm::claims(std::uint64_t key) const noexcept {
  return std::count_if(slots_.begin(), slots_.end(), [&](const AlarmSlot& one) {
    return one.key.load(std::memory_order_relaxed) == key;
  });
}

Alarm::AlarmSlot* Alarm::claim(std::uint64_t key, int most) noexcept {
  int records = 0;
  for (AlarmSlot& entry : slots_) {
    std::uint64_t holder = 0;
    if (entry.key.compare_exchange_strong(holder, key)) return &entry;
    if (holder == key && ++records == most) return nullptr;
  }
  return nullptr;
}

void Alarm::raise_without_record(AlarmKind kind, int rank) noexcept {
  if (kind != AlarmKind::kRankDied || rank < 0 || rank >= kMaxRanks) {
    has_too_many_.store(1);
    return;
  }
  const auto bit = static_cast<std::size_t>(rank);
  const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
  if ((deaths_[bit / 64].fetch_or(mask) & mask) == 0) more_deaths_.fetch_add(1);
}

void Alarm::raise(AlarmKind kind, int rank, int group,
                  std::string_view text) noexcept {
  if (kind == AlarmKind::kTooMany) return has_too_many_.store(1);
  if (kind == AlarmKind::kRankDied && rank >= 0 && rank < kMaxRanks &&
      is_dead(rank))
    return;
  const std::uint64_t key = key_of(kind, rank, group);
  AlarmSlot* entry = claim(key, /*most=*/1);
  if (!entry) {
    for (int i = 0; i < kMaxYields && claims(key) > 0; ++i) {
      if (is_known(key)) return;
      std::this_thread::yield();
    }
    // The writer of the first record is slow or was killed, or none is free.
    entry = claim(key, /*most=*/2);
  }
  if (!entry && claims(key) > 0) return;  // two others are writing it
  if (!entry) return raise_without_record(kind, rank);
  AlarmRecord& record = entry->record;
  record.kind = kind;
  record.rank = rank;
  record.group = group;
  const std::size_t length = std::min(text.size(), sizeof(record.text) - 1);
  std::memcpy(record.text, text.data(), length);
  record.text[length] = '\0';
  entry->is_published.store(1, std::memory_order_release);
}

}  // namespace sheaf::comm
