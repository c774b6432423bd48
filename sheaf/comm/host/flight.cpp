#include "sheaf/comm/host/flight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

namespace sheaf::comm {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
using CallWords = std::array<std::uint64_t, 3>;

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

std::string describe(const FlightRecord& record, std::int64_t now) {
  if (record.has_ended)
    return fmt::format("after {} of group {} (ended {:.1f} s ago)",
                       describe(record.call), record.group,
                       seconds(now - record.end_ns));
  return fmt::format("in {} of group {} for {:.1f} s", describe(record.call),
                     record.group, seconds(now - record.start_ns));
}

std::uint64_t FlightRing::begin(const Fingerprint& call,
                                std::int32_t group) noexcept {
  const std::uint64_t ticket = count_.fetch_add(1, kRelaxed);
  VersionedRecord& entry = records_[ticket % kCapacity];
  entry.version.store(2 * ticket + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const auto words = std::bit_cast<CallWords>(call);
  for (std::size_t i = 0; i < words.size(); ++i)
    entry.words[i].store(words[i], kRelaxed);
  entry.words[3].store(static_cast<std::uint32_t>(group), kRelaxed);
  entry.words[4].store(static_cast<std::uint64_t>(now_ns()), kRelaxed);
  entry.words[5].store(0, kRelaxed);
  entry.version.store(2 * ticket + 2, std::memory_order_release);
  return ticket;
}

void FlightRing::end(std::uint64_t ticket) noexcept {
  VersionedRecord& entry = records_[ticket % kCapacity];
  // If a later call has overwritten the entry, there is nothing to record.
  if (entry.version.load(kRelaxed) == 2 * ticket + 2)
    entry.words[5].store(static_cast<std::uint64_t>(now_ns()),
                         std::memory_order_release);
}

void FlightRing::mirror(const FlightRecord& record) noexcept {
  const std::uint64_t ticket = begin(record.call, record.group);
  VersionedRecord& entry = records_[ticket % kCapacity];
  entry.words[4].store(static_cast<std::uint64_t>(record.start_ns), kRelaxed);
  if (record.has_ended)
    entry.words[5].store(static_cast<std::uint64_t>(record.end_ns), kRelaxed);
}

std::optional<FlightRecord> FlightRing::read(std::uint64_t index) const {
  const VersionedRecord& entry = records_[index % kCapacity];
  if (entry.version.load(std::memory_order_acquire) != 2 * index + 2)
    return std::nullopt;
  CallWords words{};
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = entry.words[i].load(kRelaxed);
  FlightRecord record{
      .call = std::bit_cast<Fingerprint>(words),
      .group = static_cast<std::int32_t>(entry.words[3].load(kRelaxed)),
      .has_ended = false,
      .start_ns = static_cast<std::int64_t>(entry.words[4].load(kRelaxed)),
      .end_ns = static_cast<std::int64_t>(entry.words[5].load(kRelaxed))};
  record.has_ended = record.end_ns != 0;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (entry.version.load(kRelaxed) != 2 * index + 2) return std::nullopt;
  return record;
}

std::uint64_t FlightRing::count() const noexcept {
  return count_.load(std::memory_order_acquire);
}

std::optional<FlightRecord> FlightRing::latest() const {
  const std::uint64_t count = count_.load(std::memory_order_acquire);
  return count ? read(count - 1) : std::nullopt;
}

std::vector<FlightRecord> FlightRing::all() const {
  const std::uint64_t count = count_.load(std::memory_order_acquire);
  std::vector<FlightRecord> records;
  for (std::uint64_t i = count - std::min(count, kCapacity); i < count; ++i)
    if (auto record = read(i)) records.push_back(*record);
  return records;
}

}  // namespace sheaf::comm
