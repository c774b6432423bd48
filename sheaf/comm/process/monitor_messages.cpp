#include "sheaf/comm/process/monitor_messages.hpp"

#include <algorithm>
#include <cstring>

namespace sheaf::comm {
namespace {

constexpr int kAddressBits = 128;
// Of a call; larger ones would overflow when they are subtracted from the time.
constexpr std::int64_t kMostAgeNs = std::int64_t{1} << 62;

struct StatusWire {
  std::int32_t rank;
  FlightRecord record;
};

// Followed by the CallNumbers of the rank's groups.
struct EndHead {
  std::int32_t rank;
};

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto part = bytes_of(value);
  bytes.insert(bytes.end(), part.begin(), part.end());
}

// The value in a payload; nothing if the payload has another size.
template <class T>
std::optional<T> value_in(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
  return value;
}

bool is_rank(std::int32_t rank, int ranks) { return rank >= 0 && rank < ranks; }

bool is_age(std::int64_t age) { return age >= 0 && age <= kMostAgeNs; }

bool is_valid(const FlightRecord& record) {
  std::uint8_t has_ended = 0;  // other values of a bool are undefined
  std::memcpy(&has_ended, &record.has_ended, sizeof has_ended);
  return record.call.operation <= kLastOperation && has_ended <= 1 &&
         static_cast<int>(record.call.dtype) < kDTypeCount &&
         static_cast<int>(record.call.op) < kReduceOpCount &&
         is_age(record.start_ns) && is_age(record.end_ns);
}

}  // namespace

const std::size_t kMostMonitorBytes =
    std::max({sizeof(AlarmRecord), sizeof(StatusWire),
              sizeof(EndHead) + (kPlainCalls + 1) * sizeof(CallNumber)});

std::vector<Address> addresses_of(const MonitorAddress& address) {
  std::vector<Address> result;
  const std::size_t count =
      std::min<std::size_t>(address.count, address.hosts.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [ip, prefix_bits] = address.hosts[i];
    if (prefix_bits >= 0 && prefix_bits <= kAddressBits)
      result.push_back({ip, prefix_bits});
  }
  return result;
}

std::optional<AlarmRecord> decode_alarm(std::span<const std::byte> bytes,
                                        int ranks) {
  auto record = value_in<AlarmRecord>(bytes);
  if (!record || record->kind > AlarmKind::kTooMany) return std::nullopt;
  const bool has_rank = record->kind != AlarmKind::kTooMany;
  if (has_rank && !is_rank(record->rank, ranks)) return std::nullopt;
  record->text[sizeof record->text - 1] = '\0';
  return record;
}

std::vector<std::byte> encode(const RankStatus& status, std::int64_t now_ns) {
  StatusWire wire{status.rank, status.record};
  wire.record.start_ns = now_ns - status.record.start_ns;
  wire.record.end_ns = now_ns - status.record.end_ns;
  std::vector<std::byte> bytes;
  append(bytes, wire);
  return bytes;
}

std::optional<RankStatus> decode_status(std::span<const std::byte> bytes,
                                        int ranks, std::int64_t now_ns) {
  auto wire = value_in<StatusWire>(bytes);
  if (!wire || !is_rank(wire->rank, ranks) || !is_valid(wire->record))
    return std::nullopt;
  wire->record.start_ns = now_ns - wire->record.start_ns;
  wire->record.end_ns = now_ns - wire->record.end_ns;
  return RankStatus{wire->rank, wire->record};
}

std::vector<std::byte> encode(const RankEndNews& news) {
  std::vector<std::byte> bytes;
  append(bytes, EndHead{news.rank});
  for (const CallNumber& call : news.calls) append(bytes, call);
  return bytes;
}

std::optional<RankEndNews> decode_end(std::span<const std::byte> bytes,
                                      int ranks) {
  EndHead head{};
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes = bytes.subspan(sizeof head);
  if (!is_rank(head.rank, ranks) || bytes.size() % sizeof(CallNumber) != 0 ||
      bytes.size() / sizeof(CallNumber) > kPlainCalls + 1)
    return std::nullopt;
  RankEndNews news{head.rank, {}};
  news.calls.resize(bytes.size() / sizeof(CallNumber));
  if (!bytes.empty())
    std::memcpy(news.calls.data(), bytes.data(), bytes.size());
  const auto is_group = [](const CallNumber& call) {
    return call.group >= 0 && call.group <= kPlainCalls;
  };
  return std::all_of(news.calls.begin(), news.calls.end(), is_group)
             ? std::optional(std::move(news))
             : std::nullopt;
}

}  // namespace sheaf::comm
