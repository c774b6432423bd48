#pragma once
// Wire protocol between two ranks of the TCP transport.
//
// Each direction has its own connection, opened by the sender. Answers return
// on the same connection, so they never queue behind data. A message up to
// kEagerBytes is sent as one frame. Of a larger message, the first kEagerBytes
// are sent immediately; the rest follows, in parts, when the receiver grants
// it, that is, when a receive has been posted. So an unexpected message uses at
// most kEagerBytes of the receiver's memory, and the link stays busy while the
// grant is in transit.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

inline constexpr std::size_t kEagerBytes = std::size_t{1} << 20;
inline constexpr std::size_t kPartBytes = std::size_t{256} << 10;
// If unexpected messages of one peer exceed these, it must request a grant for
// every message.
inline constexpr std::size_t kUnexpectedBytes = std::size_t{64} << 20;
inline constexpr std::size_t kUnexpectedCount = std::size_t{1} << 18;
// A sender looks for such requests after this many bytes.
inline constexpr std::size_t kUnansweredBytes = std::size_t{4} << 20;
// A peer that goes on nevertheless, or sends more messages which nobody
// receives, is disconnected.
inline constexpr std::size_t kMostUnexpectedBytes = 4 * kUnexpectedBytes;
inline constexpr std::size_t kMostUnexpectedCount = 4 * kUnexpectedCount;

enum class FrameKind : std::uint32_t {
  kWhole = 1,  // a complete message
  kBegin,      // the first part of a message
  kMore,       // a further part
  kCancel,     // the sender has canceled the message
  kBye,        // an orderly end
  kBeat,       // nothing: shows whether the peer's host acknowledges
  // Answers.
  kGrant,   // send the rest
  kRefuse,  // do not send the rest: it would be discarded
  kSlow,    // from now on, request a grant for every message
  kFast     // ends kSlow
};

struct FrameHead {
  FrameKind kind{};
  Tag tag = 0;
  std::uint32_t id = 0;     // identifies a message in parts
  std::uint32_t part = 0;   // number of bytes that follow this head
  std::uint64_t bytes = 0;  // size of the whole message
};

// Whether a sender may send this frame, as far as the head tells.
inline bool is_valid(const FrameHead& head) {
  switch (head.kind) {
    case FrameKind::kWhole:
      return head.part == head.bytes && head.part <= kEagerBytes;
    case FrameKind::kBegin:
      return head.part < head.bytes && head.part <= kEagerBytes;
    case FrameKind::kMore:
      return head.part > 0 && head.part <= kPartBytes;
    case FrameKind::kCancel:
    case FrameKind::kBye:
    case FrameKind::kBeat:
      return head.part == 0;
    default:
      return false;
  }
}

// Whether a receiver may send this answer.
inline bool is_valid_answer(const FrameHead& head) {
  const bool is_about_message =
      head.kind == FrameKind::kGrant || head.kind == FrameKind::kRefuse;
  const bool is_about_all =
      head.kind == FrameKind::kSlow || head.kind == FrameKind::kFast;
  return head.part == 0 &&
         ((is_about_message && head.id != 0) || (is_about_all && head.id == 0));
}

// Where a rank listens for the other ranks. Each rank gets the cards of all
// others as text, before there is a connection.
struct TcpCard {
  static constexpr std::size_t kMostAddresses = 64;

  std::uint16_t port = 0;  // host byte order
  std::vector<Address> addresses;
};
std::string text_of(const TcpCard& card);
// Throws CommError, which names `rank`, if the text is not a card.
TcpCard parse_card(const std::string& text, int rank);

// A send or receive in progress. Its inbox or outbox drops all references to it
// before changing the state from kInProgress.
struct TcpRequest {
  enum class State : std::uint8_t { kInProgress, kDone, kFailed };

  bool is_send = false;
  int peer = 0;
  Tag tag = 0;
  std::byte* data = nullptr;  // read-only for a send
  std::size_t bytes = 0;
  std::atomic<State> state{State::kInProgress};
  std::string error{};
  // For a send in parts only.
  std::uint32_t id = 0;
  std::size_t sent = 0;
  bool is_granted = false;
  bool is_refused = false;

  bool is_in_progress() const {
    return state.load(std::memory_order_acquire) == State::kInProgress;
  }
  void end() { state.store(State::kDone, std::memory_order_release); }
  void fail(std::string why) {
    error = std::move(why);
    state.store(State::kFailed, std::memory_order_release);
  }
};

}  // namespace sheaf::comm
