#include "sheaf/comm/host/flight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

namespace sheaf::comm {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
using CallWords = std::array<std::uint64_t, 3>;

// The end of a call that is in progress; all times are below kNotEnded.
constexpr std::uint64_t kNotEnded = std::uint64_t{1} << 63;
std::uint64_t not_ended(std::uint64_t ticket) { return kNotEnded | ticket; }

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

FlightRing::VersionedRecord* FlightRing::claim(std::uint64_t ticket) noexcept {
  VersionedRecord& entry = records_[ticket % kCapacity];
  std::uint64_t version = entry.version.load(kRelaxed);
  const bool is_free = version % 2 == 0 && version < 2 * ticket + 1;
  if (!is_free ||
      !entry.version.compare_exchange_strong(version, 2 * ticket + 1, kRelaxed))
    return nullptr;
  std::atomic_thread_fence(std::memory_order_release);
  return &entry;
}

void FlightRing::write(std::uint64_t ticket,
                       const FlightRecord& record) noexcept {
  VersionedRecord* entry = claim(ticket);
  if (!entry) return;
  const auto words = std::bit_cast<CallWords>(record.call);
  for (std::size_t i = 0; i < words.size(); ++i)
    entry->words[i].store(words[i], kRelaxed);
  entry->words[3].store(static_cast<std::uint32_t>(record.group), kRelaxed);
  entry->words[4].store(static_cast<std::uint64_t>(record.start_ns), kRelaxed);
  entry->words[5].store(record.has_ended
                            ? static_cast<std::uint64_t>(record.end_ns)
                            : not_ended(ticket),
                        kRelaxed);
  entry->version.store(2 * ticket + 2, std::memory_order_release);
}

std::uint64_t FlightRing::begin(const Fingerprint& call,
                                std::int32_t group) noexcept {
  const std::uint64_t ticket = count_.fetch_add(1, kRelaxed);
  write(ticket, {.call = call, .group = group, .start_ns = now_ns()});
  return ticket;
}

// If a later call has overwritten the entry, there is nothing to record.
void FlightRing::end(std::uint64_t ticket) noexcept {
  std::uint64_t expected = not_ended(ticket);
  records_[ticket % kCapacity].words[5].compare_exchange_strong(
      expected, static_cast<std::uint64_t>(now_ns()), std::memory_order_release,
      kRelaxed);
}

void FlightRing::mirror(const FlightRecord& record) noexcept {
  write(count_.fetch_add(1, kRelaxed), record);
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
      .end_ns = 0};
  const std::uint64_t end = entry.words[5].load(kRelaxed);
  record.has_ended = end < kNotEnded;
  if (record.has_ended) record.end_ns = static_cast<std::int64_t>(end);
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
