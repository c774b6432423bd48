// What ranks send to rank 0, and rank 0 to them, when they meet.
// parser: sheaf/comm/network/meeting_messages.cpp
#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/meeting_messages.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using namespace sheaf::comm;

std::span<const std::byte> as_payload(const std::string& text) {
  return bytes_of(std::string_view(text));
}

void check_cards(std::span<const std::byte> bytes, int size) {
  const auto all = decode_cards(bytes, size);
  if (!all) return;
  const std::string again = encode(*all);
  SHEAF_FUZZ_CHECK(std::ranges::equal(as_payload(again), bytes));
  const JobIdentity identity{.job = "", .key = Key().derive("fuzz")};
  const MeetingResult result = result_of(*all, identity);
  SHEAF_FUZZ_CHECK(result.cards == all->cards);
}

void check_card(std::span<const std::byte> bytes) {
  const auto card = decode_card(bytes);
  if (!card) return;
  const std::string again = encode(*card);
  SHEAF_FUZZ_CHECK(std::ranges::equal(as_payload(again), bytes));
  SHEAF_FUZZ_CHECK(card->card.size() <= kMostCardBytes);
}

void check_failure(std::span<const std::byte> bytes) {
  try {
    throw_failure(bytes);
  } catch (const sheaf::Error& error) {
    const bool is_usage = dynamic_cast<const sheaf::UsageError*>(&error);
    const bool is_late = dynamic_cast<const sheaf::TimeoutError*>(&error);
    const std::string again =
        encode_failure(is_usage  ? MeetingFailure::kUsage
                       : is_late ? MeetingFailure::kTimeout
                                 : MeetingFailure::kComm,
                       error.what());
    const std::size_t same = std::min(again.size(), bytes.size());
    SHEAF_FUZZ_CHECK(std::ranges::equal(
        as_payload(again).subspan(1).first(same > 0 ? same - 1 : 0),
        bytes.subspan(bytes.empty() ? 0 : 1).first(same > 0 ? same - 1 : 0)));
  }
}

}  // namespace

SHEAF_FUZZ_TARGET(meeting) {
  sheaf::fuzz::ByteSource source(input);
  const std::uint8_t choice = source.byte();
  const auto bytes = std::as_bytes(source.rest());
  if (choice % 3 == 0) check_cards(bytes, choice / 3);
  if (choice % 3 == 1) check_card(bytes);
  if (choice % 3 == 2) check_failure(bytes);
}
