#include "sheaf/comm/network/meeting_messages.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kMostWhoBytes = 512;

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Removes a value from the front; returns whether it was there.
template <class T>
bool take(std::span<const std::byte>& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return true;
}

std::string text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string encode(const MemberCard& mine) {
  return mine.who + "\n" + mine.card;
}

std::optional<MemberCard> decode_card(std::span<const std::byte> bytes) {
  const std::string text = text_in(bytes);
  const std::size_t end = text.find('\n');
  if (end == text.npos || end > kMostWhoBytes ||
      text.size() - end - 1 > kMostCardBytes)
    return std::nullopt;
  MemberCard result{text.substr(0, end), text.substr(end + 1)};
  const bool is_line =
      std::none_of(result.who.begin(), result.who.end(),
                   [](unsigned char c) { return std::iscntrl(c) != 0; });
  return is_line ? std::optional(std::move(result)) : std::nullopt;
}

std::string encode(const AllCards& all) {
  std::string bytes;
  append(bytes, all.random);
  for (const std::string& card : all.cards) {
    append(bytes, static_cast<std::uint32_t>(card.size()));
    bytes += card;
  }
  return bytes;
}

std::optional<AllCards> decode_cards(std::span<const std::byte> bytes,
                                     int size) {
  AllCards result;
  if (!take(bytes, result.random)) return std::nullopt;
  for (int rank = 0; rank < size; ++rank) {
    std::uint32_t length = 0;
    if (!take(bytes, length) || length > kMostCardBytes ||
        length > bytes.size())
      return std::nullopt;
    result.cards.push_back(text_in(bytes.first(length)));
    bytes = bytes.subspan(length);
  }
  return bytes.empty() ? std::optional(std::move(result)) : std::nullopt;
}

MeetingResult result_of(AllCards all, const JobIdentity& identity) {
  return {.cards = std::move(all.cards),
          .session = identity.key.derive("session", bytes_of(all.random))};
}

std::string encode_failure(MeetingFailure kind, const std::string& text) {
  std::string bytes;
  append(bytes, kind);
  return bytes + text;
}

void throw_failure(std::span<const std::byte> bytes) {
  MeetingFailure kind{MeetingFailure::kComm};
  take(bytes, kind);
  throw_failure(kind, text_in(bytes));
}

void throw_failure(MeetingFailure kind, const std::string& text) {
  if (kind == MeetingFailure::kUsage) throw UsageError(text);
  if (kind == MeetingFailure::kTimeout) throw TimeoutError(text);
  throw CommError(text);
}

std::string this_process() {
  return concat("process ", ::getpid(), " on ", host_name());
}

}  // namespace sheaf::comm
