#pragma once
// The messages of a meeting.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sheaf/comm/network/meeting.hpp"

namespace sheaf::comm {

enum class MeetingMessage : std::uint32_t {
  kCard = 1,  // to rank 0: the process and its card
  kReceived,  // to rank 0: the cards have come
  kCards,     // from rank 0: a random number, and all cards
  kStart,     // from rank 0: all ranks have all cards
  kFailure    // from rank 0: the kind of error, and its text
};

enum class MeetingFailure : std::uint8_t { kUsage, kTimeout, kComm };

struct MemberCard {
  std::string who{};  // the process, for error messages
  std::string card{};
};
std::string encode(const MemberCard& mine);
// Nothing if one of the texts is too long, or `who` is not one line.
std::optional<MemberCard> decode_card(std::span<const std::byte> bytes);

struct AllCards {
  Bytes32 random{};  // of this session
  std::vector<std::string> cards{};
};
std::string encode(const AllCards& all);
// Nothing if the bytes are not `size` cards.
std::optional<AllCards> decode_cards(std::span<const std::byte> bytes,
                                     int size);
// What the ranks learn from them.
MeetingResult result_of(AllCards all, const JobIdentity& identity);

std::string encode_failure(MeetingFailure kind, const std::string& text);
// Throws the error of the message.
[[noreturn]] void throw_failure(std::span<const std::byte> bytes);
[[noreturn]] void throw_failure(MeetingFailure kind, const std::string& text);

// "process 123 on host a", for error messages.
std::string this_process();

}  // namespace sheaf::comm
