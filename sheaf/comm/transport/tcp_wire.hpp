#pragma once
// What travels between two ranks of the TCP transport.
//
// Each direction has a connection of its own, opened by the sender; answers
// come back on it, and so never queue behind data. A message up to
// kEagerBytes is one frame. Of a larger one the first kEagerBytes are sent at
// once; the rest follows, in parts, when the receiver grants it: when
// it knows where to put them. So a message that nobody expects takes no more
// than kEagerBytes of the receiver's memory, and a link is kept busy while
// the grant is on its way.

#include <atomic>
#include <cstdint>
#include <string>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

inline constexpr std::size_t kEagerBytes = std::size_t{1} << 20;
inline constexpr std::size_t kPartBytes = std::size_t{256} << 10;
// Unexpected messages of one peer beyond this make it ask first for all.
inline constexpr std::size_t kUnexpectedBytes = std::size_t{64} << 20;

enum class FrameKind : std::uint32_t {
  kWhole = 1,  // a message
  kBegin,      // the first part of one
  kMore,       // another part
  kCancel,     // the sender has given it up
  kBye,        // an orderly end
  // Answers.
  kGrant,   // send the rest
  kRefuse,  // do not: nobody wants it
  kSlow,    // from now on ask first for all messages
  kFast     // no longer
};

struct FrameHead {
  FrameKind kind{};
  Tag tag = 0;
  std::uint32_t id = 0;     // of a message in parts
  std::uint32_t part = 0;   // bytes that follow this head
  std::uint64_t bytes = 0;  // of the whole message
};

// A send or a receive under way. The box that works on it lets go of it
// before it sets the state to something else.
struct TcpRequest {
  enum class State : std::uint8_t { kUnderWay, kDone, kFailed };

  bool is_send = false;
  int peer = 0;
  Tag tag = 0;
  std::byte* data = nullptr;  // of a send: only read
  std::size_t bytes = 0;
  std::atomic<State> state{State::kUnderWay};
  std::string error{};
  // Of a send in parts.
  std::uint32_t id = 0;
  std::size_t sent = 0;
  bool is_granted = false;
  bool is_refused = false;

  bool is_under_way() const {
    return state.load(std::memory_order_acquire) == State::kUnderWay;
  }
  void end() { state.store(State::kDone, std::memory_order_release); }
  void fail(std::string why) {
    error = std::move(why);
    state.store(State::kFailed, std::memory_order_release);
  }
};

}  // namespace sheaf::comm
