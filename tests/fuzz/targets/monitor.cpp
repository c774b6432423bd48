// Messages between the monitors of hosts, and what a monitor does with them.
// parser: sheaf/comm/process/monitor_messages.cpp
#include "sheaf/comm/process/monitor_messages.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using namespace sheaf::comm;

constexpr int kRanks = 5;
constexpr std::int64_t kNow = std::int64_t{7'000'000'000'000};

void take_alarm(std::span<const std::byte> bytes) {
  const auto record = decode_alarm(bytes, kRanks);
  if (!record) return;
  Alarm alarm;
  alarm.raise(record->kind, record->rank, record->group, record->text);
  AlarmReader().for_each_new(alarm, [](const AlarmRecord& one) {
    SHEAF_FUZZ_CHECK(std::strlen(one.text) < sizeof one.text);
    SHEAF_FUZZ_CHECK(one.kind == AlarmKind::kTooMany ||
                     (one.rank >= 0 && one.rank < kRanks));
  });
}

void take_status(std::span<const std::byte> bytes) {
  const auto status = decode_status(bytes, kRanks, kNow);
  if (!status) return;
  SHEAF_FUZZ_CHECK(status->rank >= 0 && status->rank < kRanks);
  FlightRing board;
  board.mirror(status->record);
  SHEAF_FUZZ_CHECK(!describe(*board.latest(), kNow).empty());
  const auto again = decode_status(encode(*status, kNow), kRanks, kNow);
  SHEAF_FUZZ_CHECK(again && again->record.start_ns == status->record.start_ns);
}

void take_end(std::span<const std::byte> bytes) {
  const auto news = decode_end(bytes, kRanks);
  if (!news) return;
  SHEAF_FUZZ_CHECK(bytes.size() <= kMostMonitorBytes);
  RankEnd end;
  for (const CallNumber& call : news->calls) {
    end.note_call(call);
    SHEAF_FUZZ_CHECK(end.has_made(call));
  }
  SHEAF_FUZZ_CHECK(std::ranges::equal(encode(*news), bytes));
}

void take_address(sheaf::fuzz::ByteSource source) {
  const auto address = source.value<MonitorAddress>();
  const auto all = addresses_of(address);
  SHEAF_FUZZ_CHECK(all.size() <= MonitorAddress::kMaxAddresses);
  if (!all.empty()) by_nearness(all, {all.front()});
}

}  // namespace

SHEAF_FUZZ_TARGET(monitor) {
  sheaf::fuzz::ByteSource source(input);
  const std::uint8_t kind = source.byte() % 4;
  if (kind == 0) return take_address(source);
  const auto bytes = std::as_bytes(source.rest());
  if (kind == 1) take_alarm(bytes);
  if (kind == 2) take_status(bytes);
  if (kind == 3) take_end(bytes);
}
